"""Quotas, recomputed from who holds capacity: no group above its max, no non-preemptible pods above its min."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from berth.contracts import names
from berth.invariants.facts import Facts, Holder, amounts_of
from berth.invariants.report import Finding
from berth.resources.amounts import Amounts
from berth.rules.quota_of_pod import QuotaClaim, QuotaMap, parse_namespaces
from berth.rules.quota_payer import payer_of

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
    for holder, name in _payers(facts, groups):
        for each in _line(name, groups):
            _add(used.setdefault(each, {}), holder.amounts)
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
    for holder, name in _payers(facts, groups):
        if holder.is_ours and holder.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false":
            _add(used.setdefault(name, {}), holder.amounts)
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


def _payers(facts: Facts, groups: dict[str, Group]) -> Iterator[tuple[Holder, str]]:
    """Every holder with the group that pays for it."""
    resolved = QuotaMap(
        QuotaClaim(quota.metadata.name, quota.metadata.namespace, parse_namespaces(quota.metadata.annotations or {})[0])
        for quota in facts.world.quotas
    )
    for holder in facts.holders:
        name = payer_of(resolved, holder.quota, holder.labels.get(names.LABEL_QUOTA_NAME), holder.key[0])
        if name is not None and name in groups:
            yield holder, name


def _line(name: str, groups: dict[str, Group]) -> list[str]:
    line: list[str] = []
    while name in groups and name not in line and len(line) < LINE_MAX:
        line.append(name)
        name = groups[name].parent
    return line


def _add(into: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + amount
