"""A better plan for a contended batch, in the time given: most pods of the highest priority, then of the next.

Gangs are placed all or nothing, within node, card and quota capacity. Of cards it is known in which ways they can be
cut into the shares that are asked for; the expansion checks each choice exactly. Where the plan at hand cannot be
bettered at a priority, which the linear program often says at once, the search goes on below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from berth.placement_solver.core.counting.program import Counting
from berth.placement_solver.core.counting.supplies import Groups, Supply, cuts_of, scarce, supplies_of_cards
from berth.placement_solver.core.joint.problem import JointProblem


class JointResult(NamedTuple):
    """`counts[i][n]`; `gap` is the relative distance to the best bound, -1 when unknown."""

    counts: list[list[int]]
    gap: float


def solve(problem: JointProblem) -> JointResult | None:
    """The best counts found in the time given; None when none were found that place more than the plan at hand."""
    items = len(problem.counts)
    most = np.array(problem.most, np.int64).reshape(items, -1)
    cards, share = np.array(problem.cards, np.int64), np.array(problem.share, np.int64)
    percent = np.array(problem.percent, np.int16).reshape(-1, most.shape[1])
    supplies = [*_amounts(problem), *supplies_of_cards(cards, share, percent)]
    cuts = cuts_of(cards, share, percent, most)
    counting = Counting(problem, Groups(most, scarce(most, supplies)), cuts, time_limit_s=problem.time_limit_s)
    cost = np.array(problem.cost, float).reshape(most.shape)
    best: JointResult | None = None
    for level, placed in enumerate(problem.placed):
        if best is None:
            possible = counting.linear(level)
            if possible is None:
                return None
            if possible <= placed:
                counting.keep(level, placed)
                continue
        is_last = level == len(problem.placed) - 1
        found = counting.integer(level, cost if is_last else None)
        if found.places is None:
            return best
        if best is None and found.pods <= placed:
            counting.keep(level, placed)
            continue
        counting.keep(level, found.pods)
        gap = -1.0 if found.bound is None else (found.bound - found.pods) / max(found.bound, 1)
        best = JointResult(found.places.tolist(), max(0.0, gap) if best is None else best.gap)
    return best


def _amounts(problem: JointProblem) -> Iterator[Supply]:
    needs = np.array(problem.needs, np.int64).reshape(len(problem.counts), -1)
    for takes, has in zip(needs.T, problem.free, strict=True):
        yield Supply(takes, np.array(has, np.int64))
