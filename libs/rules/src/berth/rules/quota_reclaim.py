"""Who may be made to leave for the sake of quota: within a group, and across groups.

Within a group a pod of strictly lower priority leaves for one that the group's limits keep waiting. Across groups only
a group that uses more than its runtime gives, and only to one that stays within its minimum: what was lent comes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from berth.contracts.names import LABEL_QUOTA_PREEMPTIBLE
from berth.contracts.state import Pod
from berth.rules.preemption import NEVER, importance
from berth.rules.quota_of_pod import DEFAULT_GROUP


class Charged(NamedTuple):
    """A pod with the group that pays for it and what it is charged."""

    pod: Pod
    quota: str
    amounts: Mapping[str, int]


def is_preemptible(pod: Pod) -> bool:
    """Only the value `false` of the label keeps a pod from leaving for quota."""
    return pod.template.labels.get(LABEL_QUOTA_PREEMPTIBLE) != "false"


def may_leave_within(priority: int, quota: str, other: Charged, *, keeps_default: bool = True) -> bool:
    """Whether `other` may leave for a pod of this priority in this group.

    `keeps_default` (`disableDefaultQuotaPreemption`): pods of the default group leave for nobody.
    """
    return (
        is_preemptible(other.pod)
        and not (keeps_default and other.quota == DEFAULT_GROUP)
        and other.pod.template.priority < priority
        and other.quota == quota
    )


def may_displace(
    pod: Pod, quota: str, on_nominated: Iterable[Charged] = (), *, is_nominated_unresolvable: bool = False
) -> bool:
    """Whether others may be made to leave for the pod now.

    Not while one of its own group, of lower priority, is leaving the node that it is nominated to, unless no eviction
    helps on that node (`is_nominated_unresolvable`).
    """
    if pod.template.preemption_policy == NEVER:
        return False
    if not pod.nominated or is_nominated_unresolvable:
        return True
    return not any(
        each.pod.deleting and each.quota == quota and each.pod.template.priority < pod.template.priority
        for each in on_nominated
    )


def is_over(used: Mapping[str, int], runtime: Mapping[str, int], *, rest: Mapping[str, int] | None = None) -> bool:
    """Whether more of anything is used than the runtime has. `rest` limits what the runtime does not name."""
    for name, limit in runtime.items():
        if used.get(name, 0) > limit:
            return True
    if rest is not None:
        for name, limit in rest.items():
            if name not in runtime and used.get(name, 0) > limit:
                return True
    return False


def over(used: Mapping[str, int], runtime: Mapping[str, int]) -> dict[str, int]:
    """How much more of each resource is used than the runtime has; what the runtime does not name is not limited."""
    return {name: used.get(name, 0) - limit for name, limit in runtime.items() if used.get(name, 0) > limit}


def to_revoke(
    runtime: Mapping[str, int], used: Mapping[str, int], units: Iterable[Sequence[Charged]]
) -> list[Sequence[Charged]]:
    """Who leaves a group that has used more than its runtime for too long, in the order in which they are evicted.

    A unit is a pod, or several that leave only together and are as important as the most important of them; a pod may
    be in two, and counts once. The least important leave first, as many as needed; then each that can stay after all
    does, the most important first. All that may leave do, where even that is not enough.
    """
    left, leaving = dict(used), list[Sequence[Charged]]()
    going = Counter[str]()
    for unit in sorted(units, key=_importance, reverse=True):
        if not over(left, runtime):
            break
        if all(is_preemptible(each.pod) for each in unit):
            _count(left, (each for each in unit if not going[each.pod.uid]), -1)
            going.update(each.pod.uid for each in unit)
            leaving.append(unit)
    if over(left, runtime):
        return leaving
    revoked: list[Sequence[Charged]] = []
    for unit in reversed(leaving):
        back = [each for each in unit if going[each.pod.uid] == 1]
        _count(left, back, 1)
        if over(left, runtime):
            _count(left, back, -1)
            revoked.append(unit)
        else:
            going.subtract(each.pod.uid for each in unit)
    return revoked


def _importance(unit: Sequence[Charged]) -> tuple[int, str, str, str]:
    return min(importance(each.pod) for each in unit)


def _count(into: dict[str, int], unit: Iterable[Charged], sign: int) -> None:
    for each in unit:
        for name, amount in each.amounts.items():
            into[name] = into.get(name, 0) + sign * amount
