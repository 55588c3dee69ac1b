"""What ElasticQuotas show as used, against a recount of their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from berth.contracts import kube, names
from berth.invariants import Finding, World
from berth.invariants.facts import Facts, amounts_of
from berth.invariants.payers import charges
from berth.resources.amounts import Amounts, add_into
from berth.rules.quota_of_pod import BUILT_IN_GROUPS

DEPTH_MAX = 64
CLAIMS = names.ANNOTATION_QUOTA_NAMESPACES

Groups: TypeAlias = Mapping[str, kube.ElasticQuota]
Held: TypeAlias = tuple[str, Amounts]
"""A group, and what one of its pods holds."""


def drifted(first: Facts, second: Facts) -> Iterator[Finding]:
    """Groups that show otherwise than any moment between two looks would explain.

    What is shown has to lie between what those pods hold that both looks show in the same way, and what all hold that
    either of them shows. Nothing is said while groups, or the switches of quota-manager, change.
    """
    groups = _groups(second.world)
    if _shape(_groups(first.world)) != _shape(groups) or first.world.quota_rules != second.world.quota_rules:
        return
    after = _held(second, groups)
    before = after if first is second else _held(first, groups)
    least = _used(groups, [held for uid, held in after.items() if before.get(uid) == held])
    most = _used(groups, [*after.values(), *(held for uid, held in before.items() if after.get(uid) != held)])
    for name, quota in sorted(groups.items()):
        if quota.status.used is None:
            continue  # nobody shows anything
        shown = amounts_of(quota.status.used)
        for resource in sorted(amounts_of(quota.spec.max)):
            says, low, high = shown.get(resource, 0), least[name].get(resource, 0), most[name].get(resource, 0)
            if not low <= says <= high:
                holds = low if says < low else high
                text = f"quota {name}: its status shows {says} {resource} as used, its pods hold {holds}"
                yield Finding(f"quota {name}, {resource}", text)


def _groups(world: World) -> Groups:
    return {each.metadata.name: each for each in world.quotas if each.metadata.name not in BUILT_IN_GROUPS}


def _shape(groups: Groups) -> object:
    """What must not have changed for figures of two looks to be compared."""
    claims = {name: (each.metadata.annotations or {}).get(CLAIMS) for name, each in groups.items()}
    return {name: (each.spec, each.status, each.metadata.labels, claims[name]) for name, each in groups.items()}


def _held(facts: Facts, groups: Groups) -> dict[str, Held]:
    """By uid of each bound pod of a group."""
    return {
        holder.uid: (group, dict(amounts))
        for holder, group, amounts in charges(facts)
        if holder.is_bound and group in groups
    }


def _used(groups: Groups, held: Iterable[Held]) -> dict[str, Amounts]:
    """What each group uses of the resources that it limits, with what the groups below it use of theirs."""
    limits = {name: amounts_of(quota.spec.max).keys() for name, quota in groups.items()}
    used: dict[str, Amounts] = {name: {} for name in groups}
    for group, amounts in held:
        rest = amounts
        for name in _line(group, groups):
            rest = _of(rest, limits[name])
            add_into(used[name], rest)
    return used


def _of(amounts: Amounts, limited: Collection[str]) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name in limited}


def _line(name: str, groups: Groups) -> list[str]:
    line: list[str] = []
    while name in groups and name not in line and len(line) < DEPTH_MAX:
        line.append(name)
        name = (groups[name].metadata.labels or {}).get(names.LABEL_QUOTA_PARENT, "")
    return line
