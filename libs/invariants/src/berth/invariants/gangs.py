"""Gangs: a strict one has all the members that it needs on nodes, or none."""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts import kube
from berth.invariants.facts import Facts, Seen
from berth.invariants.report import Finding
from berth.rules.gang_config import GangConfig, gang_name_of_pod, gang_of_pod, gang_of_pod_group


def half_begun(facts: Facts) -> Iterator[Finding]:
    """Strict gangs below their minimum in a group of which members are bound. Only a quiet world can be judged."""
    if not facts.world.is_quiet:
        return
    members: dict[str, list[Seen]] = {}
    for seen in facts.pods.values():
        name = gang_name_of_pod(seen.labels, seen.annotations)
        if name and seen.is_ours:
            members.setdefault(f"{seen.key[0]}/{name}", []).append(seen)
    settings = _settings(facts, members)
    judged: set[tuple[str, ...]] = set()
    for gang_id in sorted(members):
        config = settings.get(gang_id)
        group = (config.group if config else ()) or (gang_id,)
        if config is None or group in judged or not facts.world.excused_gangs.isdisjoint(group):
            continue
        judged.add(group)
        bound = {each: sum(1 for seen in members.get(each, ()) if seen.node) for each in group}
        configs = {each: settings.get(each) for each in group}
        if not any(bound.values()) or not any(c is not None and c.mode == "Strict" for c in configs.values()):
            continue
        for each, found in configs.items():
            minimum = (found.min_member if found else None) or 0
            if bound[each] < minimum:
                text = f"gang {each}: {bound[each]} of at least {minimum} members are bound"
                yield Finding(f"gang {each}", text)


def config_of(group: kube.PodGroup) -> GangConfig:
    """What a PodGroup says of its gang."""
    meta, spec = group.metadata, group.spec
    return gang_of_pod_group(
        meta.namespace,
        meta.name,
        min_member=spec.min_member,
        schedule_timeout_s=spec.schedule_timeout_seconds,
        annotations=meta.annotations or {},
    )


def _settings(facts: Facts, members: dict[str, list[Seen]]) -> dict[str, GangConfig]:
    found: dict[str, GangConfig] = {}
    for gang_id, pods in members.items():
        for seen in sorted(pods, key=lambda each: each.key):
            config = gang_of_pod(seen.key[0], seen.labels, seen.annotations)
            if config is not None and config.min_member is not None:
                found[gang_id] = config
                break
    return found | {config.id: config for config in map(config_of, facts.world.pod_groups)}
