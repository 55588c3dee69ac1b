"""Gangs begin whole: with the plan, every gang of a group has the members that it needs, or the group began before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.state import Pod
from berth.placement_solver.core.verify.view import View
from berth.rules.gang_config import GangConfig, gang_name_of_pod, gang_of_pod_group
from berth.transaction.claims import Claim, Name


def gang_problems(claims: Sequence[Claim], view: View) -> Iterator[str]:
    """Gangs of the plan's pods that would begin with too few members."""
    arriving: dict[str, set[Name]] = {}
    for claim in claims:
        pod = view.book.seen(claim.name)
        if isinstance(pod, Pod):
            name = gang_name_of_pod(pod.template.labels, pod.template.annotations)
            if name:
                arriving.setdefault(f"{pod.namespace}/{name}", set()).add(claim.name)
    judged: set[str] = set()
    for gang_id in arriving:
        config = _settings(gang_id, view)
        group = (config.group if config else ()) or (gang_id,)
        if group[0] not in judged or gang_id not in judged:
            judged.update(group)
            yield from _group_problems(group, arriving, view)


def _group_problems(group: Sequence[str], arriving: dict[str, set[Name]], view: View) -> Iterator[str]:
    settings = {gang_id: _settings(gang_id, view) for gang_id in group}
    once = all(config is not None and config.match_policy == "once-satisfied" for config in settings.values())
    if once and any(_has_begun(gang_id, view) for gang_id in group):
        return
    for gang_id, config in settings.items():
        if config is None or config.min_member is None:
            yield f"gang {gang_id}: nobody knows how many members it needs"
            continue
        new = arriving.get(gang_id, set())
        count = len(new)
        if config.match_policy != "only-waiting":
            count += sum(1 for name in _members(gang_id, view) if name not in new and view.book.claims_of(name))
        if count < config.min_member:
            yield f"gang {gang_id}: {count} of at least {config.min_member} members are placed together"


def _settings(gang_id: str, view: View) -> GangConfig | None:
    """From the PodGroup. Without one the first member that was ever seen has set them, which only the view knows."""
    namespace, _, name = gang_id.partition("/")
    group = view.pod_groups.get(gang_id)
    if group is not None:
        return gang_of_pod_group(
            namespace,
            name,
            min_member=group.min_member,
            schedule_timeout_s=group.schedule_timeout_s,
            annotations=group.annotations,
        )
    gang = view.gangs.gangs.get(gang_id)
    return gang.config if gang is not None else None


def _members(gang_id: str, view: View) -> set[Name]:
    gang = view.gangs.gangs.get(gang_id)
    return set(gang.children) if gang is not None else set()


def _has_begun(gang_id: str, view: View) -> bool:
    gang = view.gangs.gangs.get(gang_id)
    if gang is None:
        return False
    return gang.has_begun or any(
        isinstance(pod := view.book.seen(name), Pod) and bool(pod.node) for name in gang.children
    )
