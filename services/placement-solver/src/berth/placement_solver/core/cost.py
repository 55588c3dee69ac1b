"""The cost of a class on every node, kept up to date row by row. Infinite where the class does not fit.

A class keeps its row of costs; when it is used again only the nodes touched since then are worked out anew. The
result is the same as working out all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.devices import GPU
from berth.placement_solver.core.lowest import Lowest
from berth.placement_solver.core.nodes import CPU, MEMORY, Nodes
from berth.placement_solver.core.policy import SHARE_PRICES, Policy
from berth.placement_solver.core.seams import Floats, Mask, Rows

FEW: Final = 16
"""Rows worked out one by one instead of as arrays."""
NONE: Final[Mask] = np.zeros(0, np.bool_)
_CORE: Final = GPU.columns.index(names.GPU_CORE)
_RATIO: Final = GPU.columns.index(names.GPU_MEMORY_RATIO)


def _best_shares() -> Floats:
    """The most that can be earned from a card with g percent free, for g from 0 to 100 (an unbounded knapsack)."""
    best = np.zeros(101)
    previous = 0
    offers = []
    for upto, price in SHARE_PRICES:
        offers.append((previous + 1, price))
        previous = upto
    for free in range(1, 101):
        best[free] = max([best[free - 1], *(price + best[free - size] for size, price in offers if size <= free)])
    return best


_WORTH: Final = _best_shares()


class _Idle:
    """The largest GPU nodes on which nothing holds a GPU: their rows, how many, and how many of the largest there are.

    Nodes with one GPU are none to keep.
    """

    def __init__(self) -> None:
        self.mask: Mask = NONE
        self.count = 0
        self.largest_nodes = 0
        self._at = 0
        self._for = (-1, -1, -1)

    def follow(self, nodes: Nodes) -> None:
        """Bring it up to date."""
        size, most, log = len(nodes), nodes.most_gpus, nodes.touched
        shape = (size, most, nodes.gpu_counts_version)
        changed = log.since(self._at, at_most=FEW) if self._for == shape else None
        self._at, self._for = log.end, shape
        if most < 2:
            self.mask, self.count, self.largest_nodes = np.zeros(size, np.bool_), 0, 0
        elif changed is None:
            largest = nodes.gpu_count[:size] == most
            self.mask = largest & nodes.alive[:size] & (nodes.fleet.whole(slice(0, size)) == most)
            self.count, self.largest_nodes = int(np.count_nonzero(self.mask)), int(np.count_nonzero(largest))
        elif changed:
            whole = nodes.fleet.whole()
            for row in changed:
                idle = bool(nodes.gpu_count[row] == most and nodes.alive[row] and whole[row] == most)
                self.count += idle - int(self.mask[row])
                self.mask[row] = idle


class Costs:
    """Costs over `nodes` by `policy`."""

    def __init__(self, nodes: Nodes, policy: Policy) -> None:
        self._nodes = nodes
        self._policy = policy
        self.on_rows: Callable[[PodClass], None] = lambda cls: None
        """Called with each class that was brought up to date; it may drop what other classes keep."""
        self._foreign: Mask = NONE
        self._foreign_version = 0
        self._idle = _Idle()
        self._per_gpu = np.array([[float(cores)] for cores, _ in policy.cores_short])
        self._short_weight = np.array([weight / cores for cores, weight in policy.cores_short])

    @property
    def foreign(self) -> Mask:
        """Nodes better left to other solvers; shorter than the nodes: the rest is not."""
        return self._foreign

    @foreign.setter
    def foreign(self, nodes: Mask) -> None:
        self._foreign, self._foreign_version = nodes, self._foreign_version + 1

    def of(self, cls: PodClass) -> Floats:
        """Cost of one pod of the class on each row; inf where it cannot go. Valid until the next touch."""
        nodes, count = self._nodes, len(self._nodes)
        self._keep_suitable(cls, count)
        log, known = nodes.touched, cls.cost.shape[0]
        changed = log.since(cls.cost_at, at_most=max(FEW, count // 2)) if known else None
        if changed is None:
            cls.cost = self._work_out(cls, slice(0, count))
        else:
            if known < count:  # a row that is named before its node is seen is touched when that comes
                cls.cost = np.concatenate([cls.cost, np.full(count - known, np.inf)])
            if changed:
                self._renew(cls, changed)
        cls.cost_at = log.end
        if changed is None or known < count:
            self.on_rows(cls)
        return cls.cost

    def ranked(self, cls: PodClass) -> Lowest:
        """The cost of one pod of the class with what depends on more than one node: whole nodes kept, others' parts.

        There has to be a node. Valid until the next touch.
        """
        cost, log = self.of(cls), self._nodes.touched
        key = (self._keeps_whole(cls), self._foreign_version, cost.size)
        changed = log.since(cls.ranked_at, at_most=FEW) if cls.ranked is not None and cls.ranked_for == key else None
        if cls.ranked is None or changed is None:
            cls.ranked = Lowest(self._beside(cost.copy(), slice(0, cost.size), keeps_whole=key[0]))
        elif changed:
            rows = np.array(changed, np.intp)
            cls.ranked.put(rows, self._beside(cost[rows], rows, keeps_whole=key[0]))
        cls.ranked_for, cls.ranked_at = key, log.end
        self.on_rows(cls)
        return cls.ranked

    def _beside(self, cost: Floats, rows: Rows, *, keeps_whole: bool) -> Floats:
        """The cost of these rows, changed in place by what depends on more than one node."""
        if keeps_whole:
            cost[self._idle.mask[rows]] += self._policy.whole_reserve_cost
        if self._foreign.size:
            foreign = np.zeros(len(self._nodes), np.bool_)
            seen = min(self._foreign.size, foreign.size)
            foreign[:seen] = self._foreign[:seen]
            cost += np.where(foreign[rows], self._policy.foreign_part, 0.0)
        return cost

    def _keeps_whole(self, cls: PodClass) -> bool:
        """Whether so few of the largest GPU nodes are idle that who does not need a whole one is kept off them."""
        largest = self._nodes.most_gpus
        if cls.want is not None and cls.want.instances >= largest:
            return False
        idle = self._idle
        idle.follow(self._nodes)
        return 0 < idle.count <= max(1, self._policy.whole_reserve * idle.largest_nodes)

    def _keep_suitable(self, cls: PodClass, count: int) -> None:
        """Bring up to date which rows suit the class by what the nodes are."""
        log, known = self._nodes.reshaped, cls.suitable.shape[0]
        if known == count and cls.suitable_at == log.end:
            return
        changed = log.since(cls.suitable_at)
        if known < count:
            cls.suitable = np.concatenate([cls.suitable, np.zeros(count - known, np.bool_)])
        if known == 0 or changed is None:
            rows = np.arange(count)
        else:  # a new row enters the log when its node is seen
            rows = np.array(changed, np.intp)
        if rows.size:
            suits = self._nodes.alive[rows]
            for constraint, query in cls.by_node:
                suits &= constraint.mask(query, rows)
            cls.suitable[rows] = suits
        cls.suitable_at = log.end

    def _work_out(self, cls: PodClass, rows: Rows) -> Floats:
        can = cls.suitable[rows].copy()
        for constraint, query in cls.by_capacity:
            can &= constraint.mask(query, rows)
        cost = np.full(can.shape, np.inf)
        chosen = np.flatnonzero(can)
        if chosen.size:
            real = chosen if isinstance(rows, slice) else rows[chosen]
            cost[chosen] = self._price(cls, real)
        return cost

    def _renew(self, cls: PodClass, changed: list[int]) -> None:
        """Work out the cost of a few rows. After each placement one row has changed, for which plain numbers are many
        times faster than arrays of one element."""
        if len(changed) <= FEW and cls.want is None:
            gpus = self._nodes.gpu_count
            plain = [row for row in changed if not gpus[row]] if self._nodes.most_gpus else changed
            for row in plain:
                cls.cost[row] = self._plain_one(cls, row)
            if len(plain) == len(changed):
                return
            changed = [row for row in changed if gpus[row]]
        rows = np.array(changed, np.intp)
        cls.cost[rows] = self._work_out(cls, rows)

    def _plain_one(self, cls: PodClass, row: int) -> float:
        """What `_work_out` says of one row without GPUs for a class that wants no device, to the last bit."""
        nodes = self._nodes
        if not cls.suitable[row]:
            return np.inf
        for constraint, query in cls.by_capacity:
            if not constraint.admits(query, row):
                return np.inf
        offered = nodes.allocatable[:2, row].tolist()
        free = nodes.free[:2, row].tolist()
        used = 0.0
        for column, name in ((CPU, names.CPU), (MEMORY, names.MEMORY)):
            whole = max(offered[column], 1)
            used += (whole - free[column] + cls.requests.get(name, 0)) / whole
        filled = used * 50.0
        price = filled if self._policy.cpu_strategy == "LeastAllocated" else 100.0 - filled
        return float(price - self._policy.plain_node_bonus)

    def _price(self, cls: PodClass, rows: npt.NDArray[np.intp]) -> Floats:
        """Cost on rows that fit."""
        nodes = self._nodes
        has_gpus = nodes.gpu_count[rows] > 0
        if has_gpus.all():
            return self._gpu_price(cls, rows)
        result = self._plain(cls, rows) - self._policy.plain_node_bonus
        some = np.flatnonzero(has_gpus)
        if some.size:
            result[some] = self._gpu_price(cls, rows[some])
        return result

    def _plain(self, cls: PodClass, rows: npt.NDArray[np.intp]) -> Floats:
        """Nodes without GPUs: how full cpu and memory are afterwards, 0 to 100."""
        nodes = self._nodes
        used = np.zeros(rows.shape)
        for column, name in enumerate((names.CPU, names.MEMORY)):
            whole = np.maximum(nodes.allocatable[column, rows], 1)
            used += (whole - nodes.free[column, rows] + cls.requests.get(name, 0)) / whole
        filled: Floats = used * 50.0
        return filled if self._policy.cpu_strategy == "LeastAllocated" else 100.0 - filled

    def _gpu_price(self, cls: PodClass, rows: npt.NDArray[np.intp]) -> Floats:
        policy, fleet = self._policy, self._nodes.fleet
        cores = self._nodes.free[0, rows] / 1000.0
        asked = float(cls.requests.get(names.CPU, 0)) / 1000.0
        free = np.minimum(fleet.free[_CORE, rows], fleet.free[_RATIO, rows])
        gpus = free.sum(axis=1) / 100.0
        cost = np.zeros(rows.shape)
        taken = 0.0
        if cls.want is not None:
            each = max(cls.want.amounts[_CORE], cls.want.amounts[_RATIO])
            taken = cls.want.instances * each / 100.0
            if cls.want.shared and cls.want.instances == 1 and 0 < each <= 100:
                card = np.where(fleet.candidates(cls.want, rows), free, 101).min(axis=1).clip(0, 100)
                denied = _WORTH[card] - _WORTH[np.maximum(card - each, 0)] - each / 100.0
                cost += policy.share_denied * denied + policy.card_broken * (card == 100)
        gpus_after, cores_after = gpus - taken, cores - asked
        before = np.maximum(self._per_gpu * gpus - cores, 0.0)
        cost += self._short_weight @ (np.maximum(self._per_gpu * gpus_after - cores_after, 0.0) - before)
        cost += policy.gpus_left * gpus_after / 8.0 + policy.cores_left * cores_after / 128.0
        if taken < 8:
            count = self._nodes.gpu_count[rows]
            cost += policy.node_broken * ((count >= 8) & (gpus >= count))
        stepped = np.floor(cost / policy.step) * policy.step
        tie = policy.tie_cores * cores_after / 128.0 + policy.tie_gpus * gpus_after / 8.0
        result: Floats = stepped + policy.step * 1e-3 * tie
        return result
