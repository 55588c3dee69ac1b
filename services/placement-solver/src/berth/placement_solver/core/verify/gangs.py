"""Gangs begin whole: with the plan, every gang of a group has the members that it needs, or the group began before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from berth.placement_solver.core.verify.view import View
from berth.rules.gang_config import GangConfig, gang_of_pod_group
from berth.rules.gang_member import gang_id_of
from berth.rules.gang_permit import GangMembers, permit
from berth.transaction.claims import Claim, Name


def by_gang(claims: Sequence[Claim], view: View) -> dict[str, list[Claim]]:
    """The claims of members of gangs, by the id of the gang."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        seen = view.book.seen(claim.name)
        gang_id = gang_id_of(seen) if seen is not None else ""
        if gang_id:
            found.setdefault(gang_id, []).append(claim)
    return found


def gang_problems(members: Mapping[str, Sequence[Claim]], view: View) -> Iterator[str]:
    """Gangs of the plan's pods and Reservations that would begin with too few members; those as `by_gang` has them."""
    arriving = {gang_id: {claim.name for claim in claims} for gang_id, claims in members.items()}
    judged: set[str] = set()
    for gang_id in arriving:
        config = settings_of(gang_id, view)
        group = (config.group if config else ()) or (gang_id,)
        if group[0] not in judged or gang_id not in judged:
            judged.update(group)
            yield from _group_problems(group, arriving, view)


def _group_problems(group: Sequence[str], arriving: dict[str, set[Name]], view: View) -> Iterator[str]:
    """Asks what Kubernetes users know as Permit, for the last of the plan's members of each gang."""
    gangs: dict[str, GangMembers] = {}
    for gang_id in group:
        config = settings_of(gang_id, view)
        if config is None or config.min_member is None:
            yield f"gang {gang_id}: nobody knows how many members it needs"
            return
        gangs[gang_id] = _members(gang_id, config, arriving.get(gang_id, set()), view)
    for gang_id in group:
        gang = gangs[gang_id]
        if gang_id in arriving and not permit(gang_id, {**gangs, gang_id: _less_one(gang)}).released:
            yield f"gang {gang_id}: {_counts(group, gangs)}"
            return


def _less_one(gang: GangMembers) -> GangMembers:
    return gang._replace(waiting=gang.waiting - 1)


def _counts(group: Sequence[str], gangs: dict[str, GangMembers]) -> str:
    listed = (f"{gang_id} {gangs[gang_id].waiting} of {gangs[gang_id].min_member}" for gang_id in group)
    return f"too few members are placed together: {', '.join(listed)}"


def settings_of(gang_id: str, view: View) -> GangConfig | None:
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
            found=group.problems,
        )
    gang = view.gangs.gangs.get(gang_id)
    return gang.config if gang is not None else None


def _members(gang_id: str, config: GangConfig, arriving: set[Name], view: View) -> GangMembers:
    """The gang as it would be with the plan: who holds a node but is not bound counts as waiting."""
    gang = view.gangs.gangs.get(gang_id)
    others = set(gang.children) - arriving if gang is not None else set()
    bound = {name for name in others if (seen := view.book.seen(name)) is not None and seen.node}
    return GangMembers(
        config.min_member,
        waiting=len(arriving) + sum(1 for name in others - bound if view.book.claims_of(name)),
        bound=len(bound),
        match_policy=config.match_policy,
        once_satisfied=bool(bound) or (gang is not None and gang.has_begun),
        group=config.group,
        wait_s=config.wait_s,
    )
