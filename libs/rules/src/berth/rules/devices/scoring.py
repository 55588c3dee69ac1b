"""Scores of a device and of a node by its devices: how full, in whole points from 0 to 100.

The formulas are those of Koordinator's device scoring (LeastAllocated spreads, MostAllocated packs), with integer
division at every step so that ties fall as they do there. A request counts with the figures it names, not with those
filled later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from berth.contracts import names
from berth.rules.devices.columns import Family, Vector

Strategy: TypeAlias = Literal["LeastAllocated", "MostAllocated"]
LEAST_ALLOCATED: Final[Strategy] = "LeastAllocated"
MOST_ALLOCATED: Final[Strategy] = "MostAllocated"
DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {
    names.GPU_MEMORY_RATIO: 1,
    names.GPU_MEMORY: 1,
    names.RDMA: 1,
    names.FPGA: 1,
}


class Scoring(NamedTuple):
    """A strategy and the weight of each column of one family; weight 0 leaves the column out."""

    strategy: Strategy
    weights: Vector


def scoring_of(family: Family, strategy: Strategy, weights: Mapping[str, int] = DEFAULT_WEIGHTS) -> Scoring:
    """A configured strategy for one family."""
    return Scoring(strategy, family.vector(weights))


def score(total: Vector, free: Vector, amounts: Vector, scoring: Scoring) -> int:
    """Points of a place with ``total`` and ``free`` after taking ``amounts``; 0 when no weighted resource is there."""
    points = weight_sum = 0
    packs = scoring.strategy == MOST_ALLOCATED
    for weight, capacity, left, amount in zip(scoring.weights, total, free, amounts, strict=True):
        if not weight or not capacity:
            continue
        requested = capacity if capacity < left else capacity - left + amount
        if packs:
            points += weight * (min(requested, capacity) * 100 // capacity)
        elif requested <= capacity:
            points += weight * ((capacity - requested) * 100 // capacity)
        weight_sum += weight
    return points // weight_sum if weight_sum else 0


def node_score(devices: Iterable[tuple[Vector, Vector]], amounts: Vector, scoring: Scoring) -> int:
    """Points of all devices of a family as if they were one, after taking one instance: totals and what is free."""
    pairs = list(devices)
    if not pairs:
        return 0
    totals, frees = zip(*pairs, strict=True)
    return score(_sum(totals), _sum(frees), amounts, scoring)


def normalised(scores: Sequence[int]) -> list[int]:
    """Scores of nodes so that the best has 100; all 0 if none has any."""
    best = max(scores, default=0)
    return [each * 100 // best if best > 0 else 0 for each in scores]


def _sum(vectors: Iterable[Vector]) -> Vector:
    return tuple(map(sum, zip(*vectors, strict=True)))
