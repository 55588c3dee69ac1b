"""The linear program of a bound, and the integer one where the plan does not reach the linear bound; by HiGHS.

How many pods a plan places is judged priority by priority: of those plans that place as many of each higher priority as
the plan at hand, how many of this one can any place at most? The first priority at which that is more than the plan has
ends the search. Of an integer program that is not solved in time the bound counts that HiGHS has reached. It runs with
one thread: with more it ignores its time limit.
"""

from __future__ import annotations

import time
from math import floor
from typing import Final, NamedTuple, TypeAlias

import highspy
import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.bounds.columns import Groups, groups_of
from berth.placement_solver.core.bounds.problem import Bound, BoundProblem

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]

SLACK: Final = 1e-3
"""Of a pod: what tolerances of the solver may take away."""
ONE_MORE: Final = 0.999
"""A bound that is nearer than this to a plan found is as good as proved, in whole pods."""
RATHER_S: Final = 0.02
"""With less time than this left there is no use in beginning."""


class _Rows(NamedTuple):
    """`lower <= matrix x <= upper`, row by row."""

    starts: list[int]
    columns: list[Places]
    values: list[Floats]
    lower: list[float]
    upper: list[float]

    def add(self, columns: Places, values: Floats, lower: float, upper: float) -> None:
        """One row, scaled so that its largest value is 1."""
        scale = float(np.abs(values).max()) if values.size else 1.0
        self.columns.append(columns)
        self.values.append(values / scale)
        self.starts.append(self.starts[-1] + columns.size)
        self.lower.append(lower / scale)
        self.upper.append(upper / scale)


def solve(problem: BoundProblem) -> Bound | None:
    """The bound; None where the linear program was not solved in time."""
    deadline = time.monotonic() + problem.time_limit_s
    groups = groups_of(problem)
    model = _Model(problem, groups)
    counts: list[int] = []
    method = "linear"
    for level, placed in enumerate(problem.placed):
        method = "linear"
        best = model.most_of(level, deadline, is_integer=False)
        if best is None:
            return None
        if best > placed:
            closer = model.most_of(level, deadline, is_integer=True)
            if closer is not None and closer < best:
                best, method = closer, "integer"
        counts.append(best)
        if best > placed:
            break
        model.keep(level, placed)
    return Bound(counts, method)


class _Model:
    """Counts by item and group of nodes, and for each gang group the part of it that begins."""

    def __init__(self, problem: BoundProblem, groups: Groups) -> None:
        self._problem = problem
        self._item, self._group = np.nonzero(groups.most)
        self._most = groups.most[self._item, self._group].astype(float)
        self._of_item = [np.flatnonzero(self._item == item) for item in range(len(problem.counts))]
        self._begins = len(self._item) + np.arange(max(problem.group, default=-1) + 1)
        self._rows = _Rows([0], [], [], [], [])
        self._within_groups(groups)
        self._within_counts()
        self._within_limits()

    def most_of(self, level: int, deadline: float, *, is_integer: bool) -> int | None:
        """The most pods of a level; None where that is not known in time."""
        left_s = deadline - time.monotonic()
        if left_s < RATHER_S:
            return None
        wanted = np.array(self._problem.level)[self._item] == level
        if not wanted.any():
            return 0
        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("time_limit", left_s),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", ONE_MORE),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._written(wanted, is_integer=is_integer))
        solver.run()
        info = solver.getInfo()
        if is_integer:
            bound = -float(info.mip_dual_bound)
            return floor(bound + SLACK) if np.isfinite(bound) else None
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return floor(-float(info.objective_function_value) + SLACK)

    def keep(self, level: int, placed: int) -> None:
        """Only plans count from now on that place so many of a level."""
        columns = np.flatnonzero(np.array(self._problem.level)[self._item] == level)
        if columns.size and placed:
            self._rows.add(columns, np.ones(columns.size), placed, np.inf)

    def _written(self, wanted: npt.NDArray[np.bool_], *, is_integer: bool) -> highspy.HighsLp:
        rows, columns = self._rows, len(self._item) + self._begins.size
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, len(rows.lower)
        model.col_cost_ = np.concatenate([-wanted.astype(float), np.zeros(self._begins.size)])
        model.col_lower_ = np.zeros(columns)
        model.col_upper_ = np.concatenate([self._most, np.ones(self._begins.size)])
        model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(rows.starts)
        model.a_matrix_.index_ = np.concatenate([np.zeros(0, np.intp), *rows.columns])
        model.a_matrix_.value_ = np.concatenate([np.zeros(0), *rows.values])
        if is_integer:
            model.integrality_ = [highspy.HighsVarType.kInteger] * columns
        return model

    def _within_groups(self, groups: Groups) -> None:
        of_group = [np.flatnonzero(self._group == group) for group in range(groups.most.shape[1])]
        for supply in groups.supplies:
            takes = supply.takes[self._item].astype(float)
            asked = np.bincount(self._group, takes * self._most, len(of_group))
            for group in np.flatnonzero(asked > supply.has):
                columns = of_group[group][takes[of_group[group]] > 0]
                self._rows.add(columns, takes[columns], -np.inf, float(supply.has[group]))

    def _within_counts(self) -> None:
        problem = self._problem
        for item, (count, gang) in enumerate(zip(problem.counts, problem.gang, strict=True)):
            columns = self._of_item[item]
            values = np.ones(columns.size)
            if gang < 0:
                self._rows.add(columns, values, -np.inf, float(count))
                continue
            begins = self._begins[problem.group[gang]]
            self._rows.add(np.append(columns, begins), np.append(values, -float(count)), -np.inf, 0.0)
        of_gang = np.array(problem.gang)[self._item]
        for gang, minimum in enumerate(problem.minimum):
            columns = np.flatnonzero(of_gang == gang)
            begins = self._begins[problem.group[gang]]
            values = np.append(np.ones(columns.size), -float(minimum))
            self._rows.add(np.append(columns, begins), values, 0.0, np.inf)

    def _within_limits(self) -> None:
        for left, charges in zip(self._problem.limits, self._problem.charges, strict=True):
            charged = np.array(charges, float)[self._item]
            columns = np.flatnonzero(charged)
            if columns.size:
                self._rows.add(columns, charged[columns], -np.inf, float(left))
