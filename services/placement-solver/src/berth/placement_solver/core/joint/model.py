"""The integer model of a contended batch, in cvxpy, solved by HiGHS.

Maximise the worth of what is placed, gangs all or nothing, within node, card and quota capacity. Cards are relaxed to
sums per node (idle cards for whole requests, free share for all); the expansion checks each choice exactly.

HiGHS reports zeros as a solution when it stopped before finding one, so a result counts only when the solver says that
a primal solution exists. It runs with one thread (with more it ignores its time limit) and without a warm start, so
that the same problem gives the same answer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import cvxpy as cp
import numpy as np

from berth.placement_solver.core.joint.problem import JointProblem

FEASIBLE: Final = 2
"""HiGHS: a feasible primal point was found."""
SPREAD_COST: Final = 1e-4
"""A nudge towards few nodes, far below the worth of any pod."""


class JointResult(NamedTuple):
    """`counts[i][n]`; `gap` is the relative distance to the best bound, -1 when unknown."""

    counts: list[list[int]]
    worth: float
    gap: float


def solve(problem: JointProblem) -> JointResult | None:
    """The best counts found in the time given; None when none were found."""
    items, nodes = len(problem.counts), len(problem.whole)
    placed = cp.Variable((items, nodes), integer=True)
    most = np.array(problem.most, float).reshape(items, nodes)
    needs, free = np.array(problem.needs, float), np.array(problem.free, float)
    constraints = [placed >= 0, placed <= most]
    totals = cp.sum(placed, axis=1)
    if needs.size:
        constraints.append(needs.T @ placed <= free)
    constraints += _cards(problem, placed)
    objective = np.array(problem.worth) @ totals
    gang = np.array(problem.gang)
    singles = np.flatnonzero(gang < 0)
    counts = np.array(problem.counts, float)
    if singles.size:
        constraints.append(totals[singles] <= counts[singles])
    if problem.minimum:
        begins = cp.Variable(max(problem.group) + 1, boolean=True)
        for index, minimum in enumerate(problem.minimum):
            members = np.flatnonzero(gang == index)
            start = begins[problem.group[index]]
            constraints.append(cp.sum(totals[members]) >= minimum * start)
            constraints += [totals[member] <= counts[member] * start for member in members]
    for capacity, charged in zip(problem.quota_capacity, problem.quota_needs, strict=True):
        if capacity:
            constraints.append(np.array(charged) @ totals <= np.array(capacity))
    spread = SPREAD_COST * np.arange(nodes) / max(nodes, 1)
    task = cp.Problem(cp.Maximize(objective - cp.sum(placed @ spread)), constraints)
    try:
        task.solve(solver=cp.HIGHS, threads=1, time_limit=problem.time_limit_s, warm_start=False, random_seed=0)
    except (cp.error.SolverError, ValueError):
        return None
    return _read(task, placed, problem)


def _cards(problem: JointProblem, placed: cp.Variable) -> list[cp.Constraint]:
    cards, share = np.array(problem.cards), np.array(problem.share)
    constraints: list[cp.Constraint] = []
    if cards.any():
        constraints.append(cards @ placed <= np.array(problem.whole))
    if cards.any() or share.any():
        constraints.append((cards + share) @ placed <= np.array(problem.gpu))
    return constraints


def _read(task: cp.Problem, placed: cp.Variable, problem: JointProblem) -> JointResult | None:
    stats = getattr(task.solver_stats, "extra_stats", None)
    if placed.value is None or getattr(stats, "primal_solution_status", None) != FEASIBLE:
        return None
    counts = np.rint(placed.value).astype(int).clip(0)
    worth = float(np.array(problem.worth) @ counts.sum(axis=1))
    gap = float(getattr(stats, "mip_gap", -1.0))
    return JointResult(counts.tolist(), worth, gap if np.isfinite(gap) else -1.0)
