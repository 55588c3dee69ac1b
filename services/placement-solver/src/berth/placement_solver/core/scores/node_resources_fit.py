"""NodeResourcesFit: how full a node would be: least, most, or by a curve. There is no normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from berth.placement_solver.core.nodes import Ints, Nodes
from berth.placement_solver.core.scores.amounts import Asked, asked_of, offered, requested, weights_of
from berth.placement_solver.core.scores.normalise import SCORE_MAX
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.placement_solver.core.tallies.scored import COLUMNS, ScoredTally
from berth.rules.scheduler_config import FitArgs, ShapePoint

Filled: TypeAlias = tuple[int, Ints, Ints]
"""Of one resource: its weight, what would be requested of each node, what each node offers."""
Strategy: TypeAlias = Callable[[Sequence[Filled]], Ints]


class _Sums(NamedTuple):
    scores: Ints
    weights: Ints


def least_allocated(filled: Sequence[Filled]) -> Ints:
    """The mean of what is left of each resource, in percent."""
    return _mean(filled, least_of)


def most_allocated(filled: Sequence[Filled]) -> Ints:
    """The mean of what is taken of each resource, in percent; more than all counts as all."""
    return _mean(filled, most_of)


def least_of(asked: Ints, whole: Ints) -> Ints:
    """What is left of one resource, in percent, truncated."""
    return np.where(asked > whole, 0, (whole - asked) * SCORE_MAX // _some(whole))


def most_of(asked: Ints, whole: Ints) -> Ints:
    """What is taken of one resource, in percent, truncated; more than all counts as all."""
    return np.minimum(asked, whole) * SCORE_MAX // _some(whole)


def by_shape(shape: Iterable[ShapePoint]) -> Strategy:
    """RequestedToCapacityRatio: the mean, rounded half up, over resources that the curve gives more than 0."""
    curve = curve_of(shape)

    def rated(filled: Sequence[Filled]) -> Ints:
        scores, weights = _Sums(*_nothing(filled))
        for weight, asked, whole in filled:
            percent = np.where(asked > whole, SCORE_MAX, np.minimum(asked, whole) * SCORE_MAX // _some(whole))
            score = np.where(whole > 0, curve[percent], 0)
            scores += score * weight
            weights += weight * (score > 0)
        return (2 * scores + weights) // (2 * _some(weights))

    return rated


def curve_of(shape: Iterable[ShapePoint]) -> Ints:
    """The score at each percent from 0 to 100: straight lines between the points, truncated toward zero, constant
    outside."""
    points = [(point.utilization, 10 * point.score) for point in shape]
    return np.array([_at(points, percent) for percent in range(SCORE_MAX + 1)], np.int64)


class FitQuery(NamedTuple):
    """The resources that count for the pod, with what it asks for in scores."""

    asked: tuple[Asked, ...]


class NodeResourcesFitScore:
    """Rated by one of the strategies over cpu and memory, or the resources that the configuration names."""

    name = "NodeResourcesFit"
    depends = Depends.NODE | Depends.CAPACITY

    def __init__(self, nodes: Nodes, tally: ScoredTally, args: FitArgs | None = None) -> None:
        strategy = (args or FitArgs()).scoring_strategy
        self._nodes = nodes
        self._tally = tally
        self._weights = weights_of((each.name, each.weight) for each in strategy.resources)
        self._rate: Strategy = least_allocated
        if strategy.type == "MostAllocated":
            self._rate = most_allocated
        elif strategy.type == "RequestedToCapacityRatio" and strategy.requested_to_capacity_ratio is not None:
            self._rate = by_shape(strategy.requested_to_capacity_ratio.shape)

    def prescore(self, spec: Spec) -> FitQuery:
        """Every pod is rated: what names no request counts as 100m and 200 MiB a container."""
        return FitQuery(asked_of(self._weights, {**spec.template.requests, **spec.template.scored}))

    def raw(self, query: FitQuery, rows: RowArray) -> Floats:
        """The score of the strategy."""
        filled = []
        for resource, weight, amount in query.asked:
            taken = requested(self._nodes, self._tally, resource, rows) + amount
            if resource in COLUMNS:
                taken = taken + self._tally.surplus(resource, rows)
            filled.append((weight, taken, offered(self._nodes, resource, rows)))
        if not filled:
            return np.zeros(rows.shape)
        return self._rate(filled).astype(np.float64)

    def normalise(self, query: FitQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw


def _mean(filled: Sequence[Filled], score: Callable[[Ints, Ints], Ints]) -> Ints:
    """The weighed mean, truncated, over the resources that the node has at all."""
    scores, weights = _Sums(*_nothing(filled))
    for weight, asked, whole in filled:
        has = whole > 0
        scores += np.where(has, score(asked, whole), 0) * weight
        weights += has * weight
    return scores // _some(weights)


def _nothing(filled: Sequence[Filled]) -> tuple[Ints, Ints]:
    shape = filled[0][1].shape
    return np.zeros(shape, np.int64), np.zeros(shape, np.int64)


def _some(amounts: Ints) -> Ints:
    """To divide by: where there is nothing the result is not used, or 0 over anything."""
    return np.maximum(amounts, 1)


def _at(points: Sequence[tuple[int, int]], percent: int) -> int:
    previous: tuple[int, int] | None = None
    for utilization, score in points:
        if percent <= utilization:
            if previous is None or percent == utilization:
                return score
            rise, run = (score - previous[1]) * (percent - previous[0]), utilization - previous[0]
            return previous[1] + (rise // run if rise >= 0 else -(-rise // run))
        previous = (utilization, score)
    return previous[1] if previous else 0
