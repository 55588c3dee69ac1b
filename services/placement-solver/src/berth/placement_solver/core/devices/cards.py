"""The GPUs of one node as plain numbers: what :class:`.Fleet` says of one row.

After each placement one node has changed, for which plain numbers are many times faster than arrays of one element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from berth.rules.devices.columns import CORE, RATIO, Vector
from berth.rules.devices.memory import serves
from berth.rules.devices.slots import Slot
from berth.rules.devices.want import Want


class Serving(NamedTuple):
    """How many devices can serve an instance, and the least that one of them has free, in percent."""

    devices: int
    least: int


class _Alike(NamedTuple):
    """Devices of which each has this and has that free; `percent` of each is free in cores and memory."""

    total: Vector
    free: Vector
    percent: int
    devices: int


NOTHING_SERVES = Serving(0, 100)
SERVING_MAX: Final = 64
"""How many kinds of requests a node remembers."""


class Cards:
    """The devices of a node. `percent` is the sum over them, `whole` how many nobody holds any part of; `by_percent`
    says of those with something free how much that is, at most 100, and how many they are.
    """

    __slots__ = ("_groups", "_serving", "by_percent", "percent", "whole")

    def __init__(self, slots: Iterable[Slot]) -> None:
        counts: dict[tuple[Vector, Vector], int] = {}
        for slot in slots:
            alike = (slot.total, slot.used)
            counts[alike] = counts.get(alike, 0) + 1
        self._groups: list[_Alike] = []
        self._serving: dict[Vector, Serving] = {}
        self.percent = self.whole = 0
        for (total, used), count in counts.items():
            free = Slot(0, total, used).free
            percent = min(free[CORE], free[RATIO])
            self._groups.append(_Alike(total, free, percent, count))
            self.percent += percent * count
            if free == total and any(total):
                self.whole += count
        self.by_percent = tuple((min(each.percent, 100), each.devices) for each in self._groups if each.percent > 0)

    def serving(self, want: Want) -> Serving:
        """Those that can serve one instance of the request. Many classes of pods ask the same."""
        found = self._serving.get(want.amounts)
        if found is None:
            each = [group for group in self._groups if serves(want.amounts, group.total, group.free)]
            found = NOTHING_SERVES
            if each:
                found = Serving(sum([group.devices for group in each]), min([group.percent for group in each]))
            if len(self._serving) >= SERVING_MAX:
                self._serving.clear()
            self._serving[want.amounts] = found
        return found

    def fit(self, want: Want) -> bool:
        """Whether there are enough of them."""
        return self.serving(want).devices >= want.instances
