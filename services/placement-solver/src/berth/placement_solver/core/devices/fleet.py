"""The devices of all nodes as arrays: which nodes fit a request, in one pass.

Arrays are padded to the widest node; padding has a total of zero and never fits. The answer is that of
:func:`.allocate`: a node fits here if and only if ``allocate`` finds devices on it. Whatever does not depend on the
request is worked out when a row is written, so that a request costs a few comparisons over nodes x devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.devices.columns import GPU, MEMORY, RATIO, Family
from berth.placement_solver.core.devices.slots import Slot
from berth.placement_solver.core.devices.want import Want

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = slice | npt.NDArray[np.intp]

EVERY_ROW: Final = slice(None)
MAX_AMOUNT: Final = 1 << 50
"""Larger amounts are cut, larger requests never fit (2**50 bytes is 1 PiB on one device)."""
MAX_PERCENT: Final = 1 << 12
_NO_LIMIT: Final = np.iinfo(np.int64).max


class Fleet:
    """Devices of one family on ``nodes`` rows, ``width`` devices each at first; grows in both directions on demand."""

    def __init__(self, family: Family, nodes: int, width: int = 8) -> None:
        """All rows start without a device."""
        self.family = family
        columns = len(family.columns)
        self.total: Ints = np.zeros((columns, nodes, width), np.int64)
        self.free: Ints = np.zeros((columns, nodes, width), np.int64)
        # ratio * total // 100 <= free  is  ratio * total < (free + 1) * 100, and bytes * 100 // total <= free ratio
        # alike.
        self._byte_reach: Ints = np.zeros((nodes, width), np.int64)
        self._ratio_reach: Ints = np.zeros((nodes, width), np.int64)
        self._whole: Ints = np.zeros(nodes, np.int64)

    @property
    def nodes(self) -> int:
        """How many rows there are."""
        return int(self.total.shape[1])

    def write(self, rows: Sequence[int], slots: Sequence[Sequence[Slot]]) -> None:
        """Set the devices of nodes, each row once; no slots: the node has none."""
        self._grow(max(rows) + 1, max(map(len, slots)))
        width = self.total.shape[2]
        at = np.array(rows, np.intp)
        padding = [[self.family.zero] * (width - len(each)) for each in slots]
        totals = [[slot.total for slot in each] + more for each, more in zip(slots, padding, strict=True)]
        frees = [[slot.free for slot in each] + more for each, more in zip(slots, padding, strict=True)]
        total = np.minimum(np.array(totals, np.int64), MAX_AMOUNT).transpose(2, 0, 1)
        free = np.minimum(np.array(frees, np.int64), MAX_AMOUNT).transpose(2, 0, 1)
        self.total[:, at], self.free[:, at] = total, free
        there = total > 0
        self._whole[at] = np.count_nonzero(there.any(axis=0) & (free == total).all(axis=0), axis=1)
        if self.family is GPU:
            self._byte_reach[at] = np.where(there[MEMORY], (free[MEMORY] + 1) * 100, _NO_LIMIT)
            percent = np.minimum(free[RATIO], 100) + 1
            self._ratio_reach[at] = np.where(there[RATIO], percent * total[MEMORY], _NO_LIMIT)

    def candidates(self, want: Want, rows: Rows = EVERY_ROW) -> Mask:
        """Which devices could serve one instance of the request, rows x devices."""
        asked = [(column, amount) for column, amount in enumerate(want.amounts) if amount]
        if any(amount > MAX_AMOUNT for _, amount in asked):
            return np.zeros(self.free[0, rows].shape, np.bool_)
        if asked:
            fitting: Mask = self.free[asked[0][0], rows] >= asked[0][1]
        else:
            fitting = np.any(self.free[:, rows] > 0, axis=0)
        for column, amount in asked[1:]:
            fitting &= self.free[column, rows] >= amount
        if self.family is GPU:
            ratio, memory = want.amounts[RATIO], want.amounts[MEMORY]
            if ratio > MAX_PERCENT:
                fitting[:] = False
            elif ratio and not memory:
                fitting &= self.total[MEMORY, rows] * ratio < self._byte_reach[rows]
            elif memory and not ratio:
                fitting &= memory * 100 < self._ratio_reach[rows]
        return fitting

    def whole(self, rows: Rows = EVERY_ROW) -> Ints:
        """How many devices of each node nobody holds any part of."""
        return self._whole[rows]

    def fits(self, want: Want, rows: Rows = EVERY_ROW) -> Mask:
        """Which nodes have enough such devices."""
        enough: Mask = np.count_nonzero(self.candidates(want, rows), axis=1) >= want.instances
        return enough

    def _grow(self, nodes: int, width: int) -> None:
        _, old_nodes, old_width = self.total.shape
        if nodes <= old_nodes and width <= old_width:
            return
        nodes = max(nodes, old_nodes * 3 // 2) if nodes > old_nodes else old_nodes
        width = max(width, old_width)
        grown = Fleet(self.family, nodes, width)
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                target = getattr(grown, name)
                target[tuple(slice(length) for length in array.shape)] = array
        vars(self).update(vars(grown))
