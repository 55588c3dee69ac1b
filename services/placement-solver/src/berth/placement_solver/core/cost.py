"""The cost of a class on every node, kept up to date row by row. Infinite where the class does not fit.

A class keeps its row of costs; when it is used again only the nodes touched since then are worked out anew. The
result is the same as working out all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.devices import GPU
from berth.placement_solver.core.nodes import CPU, MEMORY, PODS, Nodes
from berth.placement_solver.core.policy import SHARE_PRICES, Policy
from berth.rules.gpu_partitions import only_partitions

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = slice | npt.NDArray[np.intp]

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


class Costs:
    """Costs over `nodes` by `policy`."""

    def __init__(self, nodes: Nodes, policy: Policy) -> None:
        self._nodes = nodes
        self._policy = policy
        self._per_gpu = np.array([[float(cores)] for cores, _ in policy.cores_short])
        self._short_weight = np.array([weight / cores for cores, weight in policy.cores_short])

    def of(self, cls: PodClass) -> Floats:
        """Cost of one pod of the class on each row; inf where it cannot go. Valid until the next touch."""
        nodes, count = self._nodes, len(self._nodes)
        self._keep_suitable(cls, count)
        log = nodes.touched
        if cls.cost.shape[0] < count:
            cls.cost = self._work_out(cls, slice(0, count))
        elif cls.cost_at < log.end:
            changed = log.since(cls.cost_at)
            if changed is None or len(changed) > count // 2:
                cls.cost = self._work_out(cls, slice(0, count))
            else:
                self._renew(cls, changed)
        cls.cost_at = log.end
        return cls.cost

    def idle_whole(self) -> Mask:
        """Largest GPU nodes on which nothing holds a GPU; `NONE` where no node has several."""
        nodes, count = self._nodes, len(self._nodes)
        most = nodes.most_gpus
        if most < 2:
            return NONE
        gpus = nodes.gpu_count[:count]
        idle: Mask = (gpus == most) & nodes.alive[:count] & (nodes.fleet.whole(slice(0, count)) == gpus)
        return idle

    def fits(self, cls: PodClass, rows: Rows) -> Mask:
        """Which rows have the capacity, whether or not they suit the class."""
        nodes = self._nodes
        fits: Mask = nodes.free[nodes.columns[names.PODS], rows] >= 1
        for column, amount in zip(cls.columns, cls.amounts, strict=True):
            fits &= nodes.free[column, rows] >= amount
        if cls.want is not None:
            fits &= nodes.fleet.fits(cls.want, rows) & (nodes.unreadable[rows] == 0)
        return fits

    def _keep_suitable(self, cls: PodClass, count: int) -> None:
        """Bring up to date which rows suit the class by labels, taints and being there at all."""
        log = self._nodes.reshaped
        grown = cls.suitable.shape[0] < count
        if not grown and cls.suitable_at == log.end:
            return
        if grown:
            known = cls.suitable.shape[0]
            cls.suitable = np.concatenate([cls.suitable, np.zeros(count - known, np.bool_)])
            cls.liked = np.concatenate([cls.liked, np.zeros(count - known)])
        # A row may be named before its node is seen: it enters the log when the node comes.
        changed: Iterable[int] | None = log.since(cls.suitable_at)
        if changed is None or grown:
            changed = range(count)
            if cls.rule.unrestricted and cls.preference.empty:
                cls.suitable[:] = self._nodes.alive[:count] & ~self._nodes.marked[:count]
                cls.liked[:] = 0.0
                changed = map(int, np.flatnonzero(self._nodes.marked[:count]))
        for row in changed:
            cls.suitable[row], cls.liked[row] = self._judge(cls, row)
        cls.suitable_at = log.end
        cls.cost = np.zeros(0)

    def _judge(self, cls: PodClass, row: int) -> tuple[bool, float]:
        node = self._nodes.states[row]
        if node is None or not self._nodes.alive[row]:
            return False, 0.0
        if not cls.tolerations.admit(node.taints, unschedulable=node.unschedulable):
            return False, 0.0
        if not cls.rule.unrestricted and not cls.rule.matches(node.labels, node.name):
            return False, 0.0
        if cls.want is not None and not cls.want.shared and only_partitions(node.labels):
            return False, 0.0
        dislike = self._policy.soft_taint * cls.tolerations.count_soft_untolerated(node.taints)
        if not cls.preference.empty:
            dislike -= self._policy.preferred_node * cls.preference.score(node.labels, node.name)
        return True, dislike

    def _work_out(self, cls: PodClass, rows: Rows) -> Floats:
        can = self.fits(cls, rows) & cls.suitable[rows]
        cost = np.full(can.shape, np.inf)
        chosen = np.flatnonzero(can)
        if chosen.size:
            real = chosen if isinstance(rows, slice) else rows[chosen]
            cost[chosen] = self._price(cls, real) + cls.liked[real]
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
        free = nodes.free[:, row].tolist()
        if not cls.suitable[row] or free[PODS] < 1:
            return np.inf
        for column, amount in cls.wants:
            if free[column] < amount:
                return np.inf
        offered = nodes.allocatable[:2, row].tolist()
        used = 0.0
        for column, name in ((CPU, names.CPU), (MEMORY, names.MEMORY)):
            whole = max(offered[column], 1)
            used += (whole - free[column] + cls.requests.get(name, 0)) / whole
        filled = used * 50.0
        price = filled if self._policy.cpu_strategy == "LeastAllocated" else 100.0 - filled
        return float(price - self._policy.plain_node_bonus + cls.liked[row])

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
