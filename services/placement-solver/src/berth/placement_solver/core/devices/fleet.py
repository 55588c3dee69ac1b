"""The devices of all nodes as arrays: which nodes fit a request, and how tightly, in one pass.

Arrays are padded to the widest node; padding has a total of zero and never fits. The answer is exact for everything :func:`.allocate`
decides: a node fits here if and only if ``allocate`` finds devices on it. Only touched rows are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.devices.columns import GPU, MEMORY, RATIO, Family
from berth.placement_solver.core.devices.scoring import MOST_ALLOCATED, Scoring
from berth.placement_solver.core.devices.slots import Slot
from berth.placement_solver.core.devices.want import Want

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = slice | npt.NDArray[np.intp]

EVERY_ROW = slice(None)
_NO_LIMIT = np.iinfo(np.int64).max
MAX_AMOUNT = 1 << 55
"""Larger totals are cut: a hundred times as much must still fit in 64 bits. 2**55 bytes is 32 PiB on one device."""


class Fleet:
    """Devices of one family on ``nodes`` rows, ``width`` devices each at first; grows in both directions on demand."""

    def __init__(self, family: Family, nodes: int, width: int = 8) -> None:
        """All rows start without a device."""
        self.family = family
        columns = len(family.columns)
        self.total: Ints = np.zeros((columns, nodes, width), np.int64)
        self.free: Ints = np.zeros((columns, nodes, width), np.int64)
        # The two cross-checks between percent and bytes, kept ready so that a request costs comparisons only:
        # ratio * total // 100 <= free  is  ratio * total < (free + 1) * 100, and bytes * 100 // total <= free_ratio alike.
        self._byte_reach: Ints = np.zeros((nodes, width), np.int64)
        self._ratio_reach: Floats = np.zeros((nodes, width), np.float64)

    @property
    def nodes(self) -> int:
        """How many rows there are."""
        return int(self.total.shape[1])

    def write(self, row: int, slots: Sequence[Slot]) -> None:
        """Set the devices of one node; no slots: the node has none."""
        self._grow(row + 1, len(slots))
        self.total[:, row] = 0
        self.free[:, row] = 0
        for place, slot in enumerate(slots):
            self.total[:, row, place] = [min(amount, MAX_AMOUNT) for amount in slot.total]
            self.free[:, row, place] = [min(amount, MAX_AMOUNT) for amount in slot.free]
        if self.family is GPU:
            total, free = self.total[:, row], self.free[:, row]
            self._byte_reach[row] = np.where(total[MEMORY] > 0, (free[MEMORY] + 1) * 100, _NO_LIMIT)
            self._ratio_reach[row] = np.where(
                total[RATIO] > 0, (free[RATIO] + 1.0) * total[MEMORY].astype(np.float64), np.inf
            )

    def candidates(self, want: Want, rows: Rows = EVERY_ROW) -> Mask:
        """Which devices could serve one instance of the request, rows x devices."""
        free = self.free[:, rows]
        fitting: Mask = free.any(axis=0)
        for column, amount in enumerate(want.amounts):
            if amount:
                fitting &= free[column] >= amount
        if want.family is GPU:
            ratio, memory = want.amounts[RATIO], want.amounts[MEMORY]
            if ratio and not memory:
                fitting &= self.total[MEMORY, rows] * min(ratio, 100) < self._byte_reach[rows]
            elif memory and not ratio:
                fitting &= memory * 100.0 < self._ratio_reach[rows]
        return fitting

    def fits(self, want: Want, rows: Rows = EVERY_ROW) -> Mask:
        """Which nodes have enough such devices."""
        enough: Mask = np.count_nonzero(self.candidates(want, rows), axis=1) >= want.count
        return enough

    def tightness(self, want: Want, rows: Rows = EVERY_ROW) -> Floats:
        """How well the request fills what is there, for packing: higher is better, -1 where it does not fit.

        Whole points 0 to 100 are the used part of the devices that a packing choice would take, after taking; for whole devices,
        of which every choice leaves none, it is the part of the node's devices that would no longer be free as a whole. The fraction
        (below 1) is the used part of the node, and settles ties.
        """
        fitting = self.candidates(want, rows)
        total, free = self.total[:, rows], self.free[:, rows]
        share = _free_share(total, free)
        here = np.maximum(np.count_nonzero(total.any(axis=0), axis=1), 1)
        filled = 1.0 - share.sum(axis=1) / here
        if want.shared:
            left = np.where(fitting, share - self._taken_share(want, total), np.inf)
            if want.count == 1:
                after = left.min(axis=1, initial=np.inf)
            else:
                left.sort(axis=1)
                after = left[:, : want.count].sum(axis=1) / want.count
            main = np.floor(100.0 * (1.0 - np.where(np.isfinite(after), after, 1.0)).clip(0.0, 1.0))
        else:
            whole = np.count_nonzero((free == total).all(axis=0) & total.any(axis=0), axis=1)
            main = np.floor(100.0 * (1.0 - (whole - want.count).clip(0) / here))
        enough = np.count_nonzero(fitting, axis=1) >= want.count
        return np.where(enough, main + 0.99 * filled.clip(0.0, 1.0), -1.0)

    def node_scores(self, want: Want, scoring: Scoring, rows: Rows = EVERY_ROW) -> Ints:
        """The configured node score of every row, as :func:`.scoring.node_score` computes it, fitting or not."""
        totals, frees = self.total[:, rows].sum(axis=2), self.free[:, rows].sum(axis=2)
        points: Ints = np.zeros(totals.shape[1], np.int64)
        weight_sum: Ints = np.zeros(totals.shape[1], np.int64)
        for weight, capacity, left, amount in zip(scoring.weights, totals, frees, want.amounts, strict=True):
            if not weight:
                continue
            there = capacity > 0
            cap = np.where(there, capacity, 1)
            requested = np.where(capacity < left, capacity, capacity - left + min(amount, MAX_AMOUNT))
            if scoring.strategy == MOST_ALLOCATED:
                part = np.minimum(requested, cap) * 100 // cap
            else:
                part = np.where(requested <= cap, (cap - requested) * 100 // cap, 0)
            points += np.where(there, weight * part, 0)
            weight_sum += np.where(there, weight, 0)
        return points // np.maximum(weight_sum, 1)

    def _taken_share(self, want: Want, total: Ints) -> Floats:
        """Which part of each device one instance takes, averaged over the resources that it names."""
        taken = np.zeros(total.shape[1:], np.float64)
        named = 0
        for column, amount in enumerate(want.amounts):
            if amount:
                taken += amount / np.maximum(total[column], 1)
                named += 1
        return taken / max(named, 1)

    def _grow(self, nodes: int, width: int) -> None:
        columns, old_nodes, old_width = self.total.shape
        if nodes <= old_nodes and width <= old_width:
            return
        nodes = max(nodes, old_nodes + old_nodes // 2 if nodes > old_nodes else old_nodes)
        width = max(width, old_width)
        self.total = _padded(self.total, (columns, nodes, width))
        self.free = _padded(self.free, (columns, nodes, width))
        self._byte_reach = _padded(self._byte_reach, (nodes, width))
        self._ratio_reach = _padded(self._ratio_reach, (nodes, width))


def _free_share(total: Ints, free: Ints) -> Floats:
    """The free part of each device, averaged over the resources it has; 0 for padding."""
    there = total > 0
    part = np.where(there, free / np.maximum(total, 1), 0.0)
    mean: Floats = part.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return mean


def _padded(array: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    grown = np.zeros(shape, array.dtype)
    grown[tuple(slice(length) for length in array.shape)] = array
    return grown
