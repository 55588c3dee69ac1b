"""How much of what a pod asks of NUMA nodes a node has free, for a pod that is larger than it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.rules.numa.split import Need


class Smaller(NamedTuple):
    """The part that fits, at most 1, and what is free of each resource that more is asked of, in its own amounts."""

    part: float
    amounts: Mapping[str, int] = {}


def on_one(needs: Sequence[Need], zones: Sequence[int]) -> Smaller:
    """What fits the NUMA node that takes most of it."""
    found = [_smaller(needs, {need.name: need.offered.get(zone, 0) for need in needs}) for zone in zones]
    return max(found, key=lambda each: each.part, default=Smaller(0.0))


def on_all(needs: Sequence[Need], zones: Sequence[int]) -> Smaller:
    """What fits all NUMA nodes together."""
    return _smaller(needs, {need.name: sum(need.offered.get(zone, 0) for zone in zones) for need in needs})


def _smaller(needs: Sequence[Need], offered: Mapping[str, int]) -> Smaller:
    part = min((offered[need.name] / need.amount for need in needs), default=1.0)
    return Smaller(
        max(0.0, min(1.0, part)), {need.name: offered[need.name] for need in needs if offered[need.name] < need.amount}
    )
