"""Gangs: a strict one has all the members that it needs on nodes, or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from berth.contracts import kube
from berth.invariants.facts import ENDED, Facts
from berth.invariants.members import Said, is_ours, said_by, stands_for_a_member
from berth.invariants.report import Finding
from berth.rules.gang_config import GangConfig, gang_of_pod_group


class _Member(NamedTuple):
    """A pod, or a Reservation with an empty namespace in its name."""

    name: tuple[str, str]
    said: Said
    is_bound: bool
    has_ended: bool = False
    """A Reservation that was on a node: it is no member any more, and its gang did not begin without it."""


def half_begun(facts: Facts) -> Iterator[Finding]:
    """Strict gangs below their minimum in a group of which members are bound, pods or Reservations. Only a quiet world
    can be judged.
    """
    if not facts.world.is_quiet:
        return
    members: dict[str, list[_Member]] = {}
    for member in _members(facts):
        if member.said.gang:
            members.setdefault(member.said.gang, []).append(member)
    settings = _settings(facts, members)
    judged: set[tuple[str, ...]] = set()
    for gang_id in sorted(members):
        config = settings.get(gang_id)
        group = (config.group if config else ()) or (gang_id,)
        if config is None or group in judged or not facts.world.excused_gangs.isdisjoint(group):
            continue
        judged.add(group)
        bound = {each: sum(member.is_bound for member in members.get(each, ())) for each in group}
        configs = {each: settings.get(each) for each in group}
        is_there = any(member.is_bound and not member.has_ended for each in group for member in members.get(each, ()))
        if not is_there or not any(c is not None and c.mode == "Strict" for c in configs.values()):
            continue
        for each, found in configs.items():
            minimum = (found.min_member if found else None) or 0
            if bound[each] < minimum:
                text = f"gang {each}: {bound[each]} of at least {minimum} members are bound"
                yield Finding(f"gang {each}", text)


def _members(facts: Facts) -> Iterator[_Member]:
    for seen in facts.pods.values():
        if seen.is_ours:
            yield _Member(seen.key, Said(seen.key[0], seen.labels, seen.annotations), bool(seen.node))
    for each in facts.world.reservations:
        if is_ours(each, facts.world.schedulers) and stands_for_a_member(each):
            has_ended = each.status.phase in ENDED
            yield _Member(("", each.metadata.name), said_by(each), bool(each.status.node_name), has_ended)


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


def _settings(facts: Facts, members: dict[str, list[_Member]]) -> dict[str, GangConfig]:
    found: dict[str, GangConfig] = {}
    for gang_id, listed in members.items():
        for member in sorted(listed, key=lambda each: each.name):
            config = member.said.config
            if config is not None and config.min_member is not None:
                found[gang_id] = config
                break
    return found | {config.id: config for config in map(config_of, facts.world.pod_groups)}
