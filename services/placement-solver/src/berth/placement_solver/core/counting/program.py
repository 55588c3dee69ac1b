"""The program: how many pods of each item go to each group of nodes, gangs whole or not at all, within supplies and
quotas. Solved by HiGHS with one thread: with more it ignores its time limit."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Final, NamedTuple, Protocol, TypeAlias

import highspy
import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.counting.supplies import Cuts, Groups

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]

SLACK: Final = 1e-3
"""Of a pod: what tolerances of the solver may take away."""
ONE_MORE: Final = 0.999
"""A bound that is nearer than this to a plan found is as good as proved, in whole pods."""
RATHER_S: Final = 0.02
"""With less time than this left there is no use in beginning."""


class Batch(Protocol):
    """What of a batch the program knows beside the nodes: see `BoundProblem` and `JointProblem`."""

    @property
    def counts(self) -> Sequence[int]: ...
    @property
    def level(self) -> Sequence[int]: ...
    @property
    def cards(self) -> Sequence[int]: ...
    @property
    def share(self) -> Sequence[int]: ...
    @property
    def gang(self) -> Sequence[int]: ...
    @property
    def minimum(self) -> Sequence[int]: ...
    @property
    def group(self) -> Sequence[int]: ...
    @property
    def limits(self) -> Sequence[int]: ...
    @property
    def charges(self) -> Sequence[Sequence[int]]: ...


class Found(NamedTuple):
    """`places[i][g]` of the best plan that was found, None: none was; `pods` of the level asked for are in it, and
    `bound` is the most that any plan has, None where that is not known."""

    places: Ints | None
    pods: int
    bound: int | None


class Counting:
    """Counts by item and group of nodes, for each gang group the part of it that begins, and how many cards are cut in
    which way, where that is asked for. All that is solved takes `time_limit_s` together."""

    def __init__(self, batch: Batch, groups: Groups, cuts: Sequence[Cuts] = (), *, time_limit_s: float) -> None:
        self._batch = batch
        self._left_s = time_limit_s
        self._shape = groups.most.shape
        self._item, self._group = np.nonzero(groups.most)
        self._most = groups.most[self._item, self._group].astype(float)
        self._level = np.array(batch.level, np.intp)[self._item]
        self._begins = len(self._item) + np.arange(max(batch.group, default=-1) + 1)
        self._beside = np.ones(self._begins.size)  # the most of what is beside the counts: begins, and cards by way
        self._rows = _Rows([0], [], [], [], [])
        for each in cuts:
            self._within_cards(each)
        self._within_groups(groups)
        self._within_counts()
        self._within_limits()

    def linear(self, level: int) -> int | None:
        """The most pods of a level, if they could be divided; None where that is not known in time."""
        if not (self._level == level).any():
            return 0
        solver = self._solved(-(self._level == level).astype(float), is_integer=False)
        if solver is None or solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return floor(-float(solver.getInfo().objective_function_value) + SLACK)

    def integer(self, level: int, cost: Floats | None = None) -> Found:
        """The most pods of a level. `cost[i][g]`, at most 1: of plans that have as many the cheapest, roughly."""
        wanted = self._level == level
        nudge = np.zeros(len(self._item))
        if cost is not None:
            # All of it together is less than one pod.
            nudge = cost[self._item, self._group] * (ONE_MORE / (2 + sum(self._batch.counts)))
        solver = self._solved(nudge - wanted, is_integer=True, gap=1e-3 if cost is not None else ONE_MORE)
        if solver is None:
            return Found(None, 0, None)
        info = solver.getInfo()
        most = -float(info.mip_dual_bound)
        bound = floor(most + (ONE_MORE if cost is not None else 0.0) + SLACK) if np.isfinite(most) else None
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Found(None, 0, bound)
        values = np.rint(np.array(solver.getSolution().col_value)[: len(self._item)]).astype(np.int64)
        places = np.zeros(self._shape, np.int64)
        places[self._item, self._group] = values
        return Found(places, int(values[wanted].sum()), bound)

    def keep(self, level: int, count: int) -> None:
        """Only plans count from now on that place so many of a level at least."""
        columns = np.flatnonzero(self._level == level)
        if columns.size and count:
            self._rows.add(columns, np.ones(columns.size), count, np.inf)

    def _solved(self, cost: Floats, *, is_integer: bool, gap: float = 0.0) -> highspy.Highs | None:
        if self._left_s < RATHER_S:
            return None
        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("time_limit", self._left_s),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", gap),
        ):
            solver.setOptionValue(option, value)
        rows, columns = self._rows, len(self._item) + self._beside.size
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, len(rows.lower)
        model.col_cost_ = np.concatenate([cost, np.zeros(self._beside.size)])
        model.col_lower_ = np.zeros(columns)
        model.col_upper_ = np.concatenate([self._most, self._beside])
        model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(rows.starts)
        model.a_matrix_.index_ = np.concatenate([np.zeros(0, np.intp), *rows.columns])
        model.a_matrix_.value_ = np.concatenate([np.zeros(0), *rows.values])
        if is_integer:
            model.integrality_ = [highspy.HighsVarType.kInteger] * columns
        solver.passModel(model)
        solver.run()
        self._left_s -= solver.getRunTime()
        return solver

    def _within_groups(self, groups: Groups) -> None:
        of_group = [np.flatnonzero(self._group == group) for group in range(self._shape[1])]
        for supply in groups.supplies:
            takes = supply.takes[self._item].astype(float)
            asked = np.bincount(self._group, takes * self._most, len(of_group))
            for group in np.flatnonzero(asked > supply.has):
                columns = of_group[group][takes[of_group[group]] > 0]
                self._rows.add(columns, takes[columns], -np.inf, float(supply.has[group]))

    def _within_cards(self, cuts: Cuts) -> None:
        """Shares of each size on a group are no more than the ways in which its cards are cut have of it."""
        batch, here = self._batch, self._group == cuts.group
        ways: list[Places] = []
        for count, each in cuts.ways:
            ways.append(len(self._item) + self._beside.size + np.arange(len(each)))
            self._beside = np.append(self._beside, np.full(len(each), float(count)))
            self._rows.add(ways[-1], np.ones(len(each)), -np.inf, float(count))
        share, cards = np.array(batch.share)[self._item], np.array(batch.cards, float)[self._item]
        for place, size in enumerate(cuts.sizes):
            asked = np.flatnonzero(here & (share == size))
            values = [-each[:, place].astype(float) for _, each in cuts.ways]
            self._rows.add(np.concatenate([asked, *ways]), np.concatenate([cards[asked], *values]), -np.inf, 0.0)

    def _within_counts(self) -> None:
        batch = self._batch
        for item, (count, gang) in enumerate(zip(batch.counts, batch.gang, strict=True)):
            columns = np.flatnonzero(self._item == item)
            values = np.ones(columns.size)
            if gang < 0:
                self._rows.add(columns, values, -np.inf, float(count))
                continue
            begins = self._begins[batch.group[gang]]
            self._rows.add(np.append(columns, begins), np.append(values, -float(count)), -np.inf, 0.0)
        of_gang = np.array(batch.gang, np.intp)[self._item]
        for gang, minimum in enumerate(batch.minimum):
            columns = np.flatnonzero(of_gang == gang)
            begins = self._begins[batch.group[gang]]
            values = np.append(np.ones(columns.size), -float(minimum))
            self._rows.add(np.append(columns, begins), values, 0.0, np.inf)

    def _within_limits(self) -> None:
        for left, charges in zip(self._batch.limits, self._batch.charges, strict=True):
            charged = np.array(charges, float)[self._item]
            columns = np.flatnonzero(charged)
            if columns.size:
                self._rows.add(columns, charged[columns], -np.inf, float(left))


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
