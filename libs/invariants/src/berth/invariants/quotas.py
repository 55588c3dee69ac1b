"""Quotas, recomputed from who holds capacity: no group above its max, no non-preemptible pods above its min."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from berth.contracts import names
from berth.invariants.facts import Facts, amounts_of
from berth.invariants.payers import charges
from berth.invariants.report import Finding
from berth.resources.amounts import Amounts, add_into

LINE_MAX = 64


class Group(NamedTuple):
    """An ElasticQuota as far as it limits."""

    name: str
    parent: str
    min: Amounts
    max: Amounts


def above_max(facts: Facts) -> Iterator[Finding]:
    """Groups whose subtree holds more than their max, a pod of Berth being among the holders."""
    groups = _groups(facts)
    used: dict[str, Amounts] = {}
    ours: set[str] = set()
    for holder, name, amounts in charges(facts):
        for each in _line(name, groups):
            add_into(used.setdefault(each, {}), amounts)
            if holder.is_ours:
                ours.add(each)
    for name in sorted(used):
        for resource, most in sorted(groups[name].max.items()):
            if name in ours and used[name].get(resource, 0) > most:
                text = f"quota {name}: {used[name][resource]} of {most} {resource}"
                yield Finding(f"quota {name}, {resource}", text)


def non_preemptible_above_min(facts: Facts) -> Iterator[Finding]:
    """Groups whose own non-preemptible pods hold more than the min that the group names."""
    groups = _groups(facts)
    used: dict[str, Amounts] = {}
    for holder, name, amounts in charges(facts):
        if name in groups and holder.is_ours and holder.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false":
            add_into(used.setdefault(name, {}), amounts)
    for name in sorted(used):
        group = groups[name]
        for resource in sorted(group.min.keys() & group.max.keys()):
            if used[name].get(resource, 0) > group.min[resource]:
                held, least = used[name][resource], group.min[resource]
                text = f"quota {name}: non-preemptible pods hold {held} of {least} {resource}"
                yield Finding(f"quota {name}, {resource}", text)


def _groups(facts: Facts) -> dict[str, Group]:
    return {
        quota.metadata.name: Group(
            name=quota.metadata.name,
            parent=(quota.metadata.labels or {}).get(names.LABEL_QUOTA_PARENT, ""),
            min=amounts_of(quota.spec.min),
            max=amounts_of(quota.spec.max),
        )
        for quota in facts.world.quotas
    }


def _line(name: str, groups: dict[str, Group]) -> list[str]:
    line: list[str] = []
    while name in groups and name not in line and len(line) < LINE_MAX:
        line.append(name)
        name = groups[name].parent
    return line
