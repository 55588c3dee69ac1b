"""The integer model of who leaves for a whole job, solved by HiGHS from the plan at hand on.

One 0/1 variable for each unit that may leave, one count for each class and node; a node takes no more than is free
there once those units have left, and all members have a place. Of what a node is over-committed in, one more 0/1
variable says whether anybody comes: if not, nobody has to leave for that. It runs with one thread: with more it ignores
its time limit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import highspy
import numpy as np

from berth.placement_solver.core.joint.leaving import LeavingProblem
from berth.rules.job_preemption.problem import Ints

GAP: Final = 2e-3
"""So near to the optimum, relative to it, a plan is good enough."""


class LeavingResult(NamedTuple):
    """`places[class][node]` and the units that leave; `gap` is the relative distance to the best bound."""

    places: list[list[int]]
    units: list[int]
    gap: float


class _Rows:
    """Constraints `lower <= sum of value x variable <= upper`, one after the other."""

    def __init__(self) -> None:
        self.starts = [0]
        self.columns: list[int] = []
        self.values: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, terms: dict[int, float], lower: float, upper: float) -> None:
        self.columns += terms.keys()
        self.values += terms.values()
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)


def solve(problem: LeavingProblem) -> LeavingResult | None:
    """The cheapest plan found in the time given; None when none was."""
    units = len(problem.price)
    counts, most = _counts(problem)
    column = {each: units + at for at, each in enumerate(counts)}
    rows = _Rows()
    free_of_members = units + len(counts)
    flags = _within_nodes(problem, column, most, rows, free_of_members)
    for kind, members in enumerate(problem.members):
        rows.add({at: 1.0 for (of, _), at in column.items() if of == kind}, members, members)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = free_of_members + len(flags), len(rows.lower)
    model.col_cost_ = np.concatenate([np.array(problem.price, float), np.zeros(len(counts) + len(flags))])
    model.col_lower_ = np.zeros(model.num_col_)
    bounds = np.array([most[each] for each in counts], float)
    model.col_upper_ = np.concatenate([np.ones(units), bounds, np.ones(len(flags))])
    model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.starts)
    model.a_matrix_.index_ = np.array(rows.columns)
    model.a_matrix_.value_ = np.array(rows.values)
    model.integrality_ = [highspy.HighsVarType.kInteger] * model.num_col_
    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", GAP),
        ("time_limit", problem.time_limit_s),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    start = highspy.HighsSolution()
    start.col_value = _at_hand(problem, counts, flags)
    solver.setSolution(start)
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    found = np.rint(np.array(solver.getSolution().col_value)).astype(int)
    places = [[0] * len(problem.free) for _ in problem.members]
    for (kind, node), at in column.items():
        places[kind][node] = int(found[at])
    gap = float(info.mip_gap)
    return LeavingResult(places, np.flatnonzero(found[:units]).tolist(), gap if np.isfinite(gap) else -1.0)


def _counts(problem: LeavingProblem) -> tuple[list[tuple[int, int]], dict[tuple[int, int], int]]:
    """Class and node of each count, and how many members the node takes once everybody has left it."""
    emptied: Ints = np.array(problem.free, np.int64)
    if problem.pod_node:
        np.add.at(emptied, problem.pod_node, np.array(problem.pod_amounts, np.int64))
    most: dict[tuple[int, int], int] = {}
    for kind, (request, members, rows) in enumerate(zip(problem.requests, problem.members, problem.rows, strict=True)):
        wanted = np.array(request) > 0
        for node in rows:
            able = min((emptied[node][wanted] // np.array(request)[wanted]).tolist(), default=members)
            if able > 0:
                most[kind, node] = min(members, able)
    return list(most), most


def _within_nodes(
    problem: LeavingProblem,
    column: dict[tuple[int, int], int],
    most: dict[tuple[int, int], int],
    rows: _Rows,
    next_column: int,
) -> list[tuple[int, int]]:
    """What nodes can take; node and resource of each further variable, from `next_column` on."""
    there: dict[int, list[int]] = {}
    for pod, node in enumerate(problem.pod_node):
        there.setdefault(node, []).append(pod)
    flags: list[tuple[int, int]] = []
    for node in sorted({node for _, node in column}):
        kinds = [kind for kind in range(len(problem.members)) if (kind, node) in column]
        for resource, free in enumerate(problem.free[node]):
            asked = {kind: problem.requests[kind][resource] for kind in kinds if problem.requests[kind][resource]}
            at_most = sum(amount * most[kind, node] for kind, amount in asked.items())
            if at_most <= free:
                continue
            terms = {column[kind, node]: float(amount) for kind, amount in asked.items()}
            if free < 0:
                flag = next_column + len(flags)
                flags.append((node, resource))
                rows.add({**terms, flag: -float(at_most)}, -np.inf, 0.0)
                terms[flag] = -float(free)
            for pod in there.get(node, ()):
                amount = problem.pod_amounts[pod][resource]
                if amount:
                    unit = problem.pod_unit[pod]
                    terms[unit] = terms.get(unit, 0.0) - amount
            rows.add(terms, -np.inf, max(free, 0))
    return flags


def _at_hand(problem: LeavingProblem, counts: list[tuple[int, int]], flags: list[tuple[int, int]]) -> list[float]:
    leaves = [0.0] * len(problem.price)
    for unit in problem.units:
        leaves[unit] = 1.0
    comes = [
        float(
            any(
                places[node] and request[resource]
                for places, request in zip(problem.places, problem.requests, strict=True)
            )
        )
        for node, resource in flags
    ]
    return leaves + [float(problem.places[kind][node]) for kind, node in counts] + comes
