"""What prod pods have asked for and are not going to need, by two ways of which the smaller result counts.

By pods: each that is known for long enough leaves what it asked for beyond its peak. By priority: all of them together
leave what they asked for beyond the peaks of prod pods, unclassified pods and the system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.names import CPU, MEMORY
from berth.resources.amounts import Amounts
from berth.rules.cpus.qos import PROD

NONE: Final = ""
"""Pods of no class count like prod pods."""
SYSTEM: Final = "sys"
"""What is used outside of pods."""
COUNTED: Final = frozenset({PROD, NONE})
RESOURCES: Final = (CPU, MEMORY)


class PodPeak(NamedTuple):
    """A pod. `peak` is what it is going to need before any margin; None: nobody knows. `age_s`: known for so long."""

    priority_class: str
    request: Amounts
    age_s: float
    peak: Amounts | None
    is_alive: bool = True


class Rule(NamedTuple):
    """How careful to be. A pod that is known for no longer than the cold start leaves nothing."""

    cold_start_s: float = 86_400.0
    margin_percent: int = 10


def by_pods(rule: Rule, pods: Iterable[PodPeak], allocatable: Amounts) -> Amounts:
    """What pods leave, each by itself; no more than lies beyond their peaks on the node."""
    left, peaks = dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0)
    for pod in pods:
        if pod.priority_class not in COUNTED or not pod.is_alive or pod.peak is None or pod.age_s <= rule.cold_start_s:
            continue
        for name in RESOURCES:
            peak = _with_margin(pod.peak.get(name, 0), rule)
            left[name] += max(pod.request.get(name, 0) - peak, 0)
            peaks[name] += peak
    return {name: min(max(allocatable.get(name, 0) - peaks[name], 0), left[name]) for name in RESOURCES}


def by_priority(rule: Rule, pods: Iterable[PodPeak], items: Mapping[str, Amounts], allocatable: Amounts) -> Amounts:
    """What pods leave together. `items` are peaks of the system and of classes."""
    alive = [pod for pod in pods if pod.priority_class in COUNTED and pod.is_alive]
    found: Amounts = {}
    for name in RESOURCES:
        peak = _with_margin(sum(items.get(each, {}).get(name, 0) for each in (SYSTEM, PROD, NONE)), rule)
        requested = sum(pod.request.get(name, 0) for pod in alive)
        found[name] = min(max(allocatable.get(name, 0) - peak, 0), max(requested - peak, 0))
    return found


def reclaimable(rule: Rule, pods: Iterable[PodPeak], items: Mapping[str, Amounts], allocatable: Amounts) -> Amounts:
    """The smaller of both, by resource."""
    pods = list(pods)
    one, other = by_pods(rule, pods, allocatable), by_priority(rule, pods, items, allocatable)
    return {name: min(one[name], other[name]) for name in RESOURCES}


def _with_margin(amount: int, rule: Rule) -> int:
    return amount * (100 + rule.margin_percent) // 100
