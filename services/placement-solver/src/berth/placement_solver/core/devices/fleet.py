"""The devices of all nodes as arrays: which nodes fit a request, in one pass.

Arrays are padded to the widest node; padding has nothing free and never fits. The answer is that of
:func:`.allocate`: a node fits here if and only if ``allocate`` finds devices on it. Whatever does not depend on the
request is worked out when a row is written, so that a request costs a comparison over the devices of all nodes, and the
usual one, as much of the cores as of the memory, a comparison over the nodes. The nodes are the last axis, along which
numpy is fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.rules.devices.columns import CORE, GPU, MEMORY, RATIO, Family
from berth.rules.devices.slots import Slot
from berth.rules.devices.want import Want

Ints: TypeAlias = npt.NDArray[np.int64]
Percents: TypeAlias = npt.NDArray[np.int16]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = slice | npt.NDArray[np.intp]

EVERY_ROW: Final = slice(None)
MAX_AMOUNT: Final = 1 << 50
"""Larger amounts are cut, larger requests never fit (2**50 bytes is 1 PiB on one device)."""
MAX_PERCENT: Final = 1 << 12
"""Larger requests of memory in percent never fit."""


class Fleet:
    """Devices of one family on ``nodes`` rows, ``width`` devices each at first; grows in both directions on demand.

    ``free`` is columns x devices x nodes, ``count`` how many devices of a node are healthy. Of GPUs ``percent`` is how
    much of each is free in both cores and memory, at most 100, and ``percent_sum`` the sum over each node, of what is
    free.
    """

    def __init__(self, family: Family, nodes: int, width: int = 8) -> None:
        """All rows start without a device."""
        self.family = family
        columns = len(family.columns)
        self.free: Ints = np.zeros((columns, width, nodes), np.int64)
        self.percent: Percents = np.zeros((width, nodes), np.int16)
        self.percent_sum: Ints = np.zeros(nodes, np.int64)
        # The most that can be asked for in percent, and in bytes, when the other is filled from it.
        self._ratio: Percents = np.zeros((width, nodes), np.int16)
        self._bytes: Ints = np.zeros((width, nodes), np.int64)
        # The most that can be asked for of cores and memory alike, or of the only resource, by device and with the
        # most first.
        self._even: Percents = np.zeros((width, nodes), np.int16)
        self._evens: Percents = np.zeros((width, nodes), np.int16)
        self._whole: Ints = np.zeros(nodes, np.int64)
        self.count: Ints = np.zeros(nodes, np.int64)

    @property
    def nodes(self) -> int:
        """How many rows there are."""
        return int(self.free.shape[2])

    def write(self, rows: Sequence[int], slots: Sequence[Sequence[Slot]]) -> None:
        """Set the devices of nodes, each row once; no slots: the node has none."""
        self._grow(max(rows) + 1, max(map(len, slots)))
        width, zero = self.free.shape[1], self.family.zero
        kinds = list({id(each): each for each in slots}.values())  # idle nodes of one make share their slots
        alike = {(zero, zero): 0}  # most devices are like another one; padding is one that is not there
        which = [
            [alike.setdefault((slot.total, slot.used), len(alike)) for slot in each] + [0] * (width - len(each))
            for each in kinds
        ]
        frees = [Slot(0, total, used).free for total, used in alike]
        found = _devices_of(
            np.minimum(np.array([total for total, _ in alike], np.int64), MAX_AMOUNT).T,
            np.minimum(np.array(frees, np.int64), MAX_AMOUNT).T,
        )
        at = np.array(rows, np.intp)
        device = np.array(which, np.intp).T
        if len(kinds) < len(slots):
            places = {id(each): place for place, each in enumerate(kinds)}
            device = device[:, [places[id(each)] for each in slots]]
        self.free[:, :, at] = found.free[:, device]
        self._whole[at] = found.whole[device].sum(axis=0)
        self.count[at] = found.there[device].sum(axis=0)
        if self.family is GPU:
            percent = found.percent[device]
            self.percent[:, at] = np.minimum(percent, 100)
            self.percent_sum[at] = percent.sum(axis=0)
            self._ratio[:, at] = found.ratio[device]
            self._bytes[:, at] = found.bytes[device]
        self._even[:, at] = even = found.even[device]
        self._evens[:, at] = -np.sort(-even, axis=0)

    def candidates(self, want: Want, rows: Rows = EVERY_ROW) -> Mask:
        """Which devices could serve one instance of the request, devices x rows."""
        if percent := _even_part(want):
            even: Mask = self._even[:, rows] >= percent
            return even
        if not _is_possible(want):
            return np.zeros(self.free[0][:, rows].shape, np.bool_)
        asked = [(column, amount) for column, amount in enumerate(want.amounts) if amount]
        if not asked:
            some: Mask = np.any(self.free[:, :, rows] > 0, axis=0)
            return some
        fitting: Mask = self._most(asked[0][0], want)[:, rows] >= asked[0][1]
        for column, amount in asked[1:]:
            fitting &= self._most(column, want)[:, rows] >= amount
        return fitting

    def fits(self, want: Want, rows: Rows = EVERY_ROW) -> Mask:
        """Which nodes have enough such devices."""
        percent = _even_part(want)
        if percent and want.instances <= self._evens.shape[0]:
            even: Mask = self._evens[want.instances - 1, rows] >= percent
            return even
        enough: Mask = np.count_nonzero(self.candidates(want, rows), axis=0) >= want.instances
        return enough

    def whole(self, rows: Rows = EVERY_ROW) -> Ints:
        """How many devices of each node nobody holds any part of."""
        return self._whole[rows]

    def _most(self, column: int, want: Want) -> Percents | Ints:
        """The most of a resource that can be asked of each device beside what else the request asks."""
        if self.family is GPU:
            if column == RATIO and not want.amounts[MEMORY]:
                return self._ratio
            if column == MEMORY and not want.amounts[RATIO]:
                return self._bytes
        free: Ints = self.free[column]
        return free

    def _grow(self, nodes: int, width: int) -> None:
        _, old_width, old_nodes = self.free.shape
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


class _Devices(NamedTuple):
    """Devices by place: what is free, whether it is healthy, whether nobody holds any part, and of GPUs what can be
    asked of each."""

    free: Ints
    there: Mask
    whole: Mask
    percent: Ints
    ratio: Ints
    bytes: Ints
    even: Ints


def _devices_of(total: Ints, free: Ints) -> _Devices:
    """`ratio * total // 100 <= free` is `ratio <= ((free + 1) * 100 - 1) // total`, and
    `bytes * 100 // total <= free ratio` alike."""
    there: Mask = np.any(total > 0, axis=0)
    whole = there & (free == total).all(axis=0)
    if total.shape[0] <= MEMORY:
        nothing = np.zeros(total.shape[1], np.int64)
        return _Devices(free, there, whole, nothing, nothing, nothing, np.minimum(free[0], MAX_PERCENT))
    by_bytes = ((free[MEMORY] + 1) * 100 - 1) // np.maximum(total[MEMORY], 1)
    ratio = np.minimum(np.minimum(free[RATIO], np.where(total[MEMORY] > 0, by_bytes, MAX_PERCENT)), MAX_PERCENT)
    by_ratio = ((np.minimum(free[RATIO], 100) + 1) * total[MEMORY] - 1) // 100
    return _Devices(
        free,
        there,
        whole,
        percent=np.minimum(free[CORE], free[RATIO]),
        ratio=ratio,
        bytes=np.minimum(free[MEMORY], np.where(total[RATIO] > 0, by_ratio, MAX_AMOUNT)),
        even=np.minimum(free[CORE], ratio),
    )


def _even_part(want: Want) -> int:
    """How much is asked of the cores and of the memory, in percent, where that is alike and all that is asked; of a
    family with one resource, of that. 0: something else is asked."""
    if want.family is not GPU:
        return want.amounts[0] if len(want.amounts) == 1 and 0 < want.amounts[0] <= MAX_PERCENT else 0
    core, ratio, memory, *others = want.amounts
    return core if 0 < core == ratio <= MAX_PERCENT and not memory and not any(others) else 0


def _is_possible(want: Want) -> bool:
    return max(want.amounts) <= MAX_AMOUNT and (want.family is not GPU or want.amounts[RATIO] <= MAX_PERCENT)
