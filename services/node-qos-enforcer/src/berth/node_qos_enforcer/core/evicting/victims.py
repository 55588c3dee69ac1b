"""Who leaves first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from typing import NamedTuple

from berth.contracts.names import CPU
from berth.rules.node_evictions.candidates import Candidate, refusal
from berth.rules.node_evictions.features import Feature
from berth.rules.node_evictions.thresholds import Thresholds


class Victim(NamedTuple):
    """A pod that may have to leave. `used` and `request` are of the feature's resource; None: it was not measured.
    `priority_class` is the protocol's, by which the resource that it requests is called."""

    uid: str
    name: str
    pod: Candidate
    used: int | None
    request: int
    priority_class: str = ""


def victims_of(feature: Feature, thresholds: Thresholds, pods: Iterable[Victim]) -> list[Victim]:
    """Those that the feature may evict, first who leaves first."""
    may = [each for each in pods if not refusal(feature, each.pod, thresholds)]
    if feature.best_effort:
        return sorted(may, key=cmp_to_key(_before_by_cpu if feature.resource == CPU else _before_by_memory))
    measured = [each for each in may if each.used is not None]
    return sorted(measured, key=lambda each: _turn(feature, each))


def _turn(feature: Feature, victim: Victim) -> tuple[int, int, int, int]:
    pod = victim.pod
    size = victim.request if feature.by == "allocatable" else victim.used or 0
    return pod.turn, pod.priority_value, pod.sub_priority, -size


def _by_priority(one: Victim, other: Victim) -> int:
    """By the priority of their spec; whoever has none is equal to everybody."""
    if one.pod.priority is None or other.pod.priority is None:
        return 0
    return one.pod.priority - other.pod.priority


def _before_by_cpu(one: Victim, other: Victim) -> int:
    """By priority, then who uses most of what it asked for."""
    first = _by_priority(one, other)
    return first or _sign(_share(other) - _share(one))


def _before_by_memory(one: Victim, other: Victim) -> int:
    """By priority, then who uses most; of those that use nothing the last name first."""
    first = _by_priority(one, other)
    if first:
        return first
    if not one.used and not other.used:
        return (one.name < other.name) - (one.name > other.name)
    return _sign((other.used or 0) - (one.used or 0))


def _share(victim: Victim) -> float:
    return (victim.used or 0) / victim.request if victim.request > 0 else 0.0


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
