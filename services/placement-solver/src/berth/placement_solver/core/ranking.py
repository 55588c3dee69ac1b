"""Which of the nodes that fit is taken by scores: kube-scheduler's sum, or Berth's cost less what the pod prefers.

Pure: ratings and costs in, positions and costs out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from berth.placement_solver.core.seams import FirstOfEquals, Floats, RowArray, Score


class Rated(NamedTuple):
    """A score with its weight in the profile, and the ratings of the feasible rows before normalisation."""

    score: Score[object]
    weight: float
    query: object
    raw: Floats


def total(rated: Iterable[Rated], rows: RowArray) -> Floats:
    """The sum of weighed scores of each feasible row, normalised among them."""
    result = np.zeros(rows.shape)
    for each in rated:
        result += each.weight * each.score.normalise(each.query, each.raw, rows)
    return result


def best(rated: Sequence[Rated], rows: RowArray, cost: Floats) -> int:
    """The position of the row of the highest sum; among equals the one of least cost, then the first. A score may say
    that it is the first whatever it costs.

    kube-scheduler chooses among equals by chance, and computes no score for a single node.
    """
    if rows.shape[0] == 1:
        return 0
    sums = total(rated, rows)
    among = np.flatnonzero(sums == sums.max())
    if any(isinstance(each.score, FirstOfEquals) for each in rated):
        return int(among[0])
    return int(among[np.argmin(cost[among])])


def preferred(rated: Sequence[Rated], rows: RowArray, cost: Floats, price: float) -> Floats:
    """The cost of each feasible row less what the pod prefers, `price` for each point of the weighed scores.

    A score that rates all rows alike changes nothing, to the last bit.
    """
    result = cost
    for each in rated:
        score = each.score.normalise(each.query, each.raw, rows)
        if score.size and (score != score[0]).any():
            result = result - price * each.weight * score
    return result
