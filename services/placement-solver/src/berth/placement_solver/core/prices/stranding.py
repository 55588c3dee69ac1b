"""Idle GPUs that pods which arrive cannot use where they are: for want of cores, or since no card has enough left.

The idea is that of Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023): of a node with so much left, what is
lost to a pod that is drawn from those that arrive. Where pods come and go, what is left is all there ever is, so a pod
goes where it makes that grow least. Twice: for many rows as arrays, for one row as plain numbers; both say the same to
the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.prices.workload import Workload
from berth.placement_solver.core.seams import Floats

if TYPE_CHECKING:
    import numpy.typing as npt

WHOLE: Final = 100
TYPICAL: Final = 12
"""So many kinds of pods stand for all: most that arrive are of one of them."""
STAYS: Final = 0.1
"""Typical pods stay the same until so large a part of what arrives is of others."""


class Typical(NamedTuple):
    """A kind of pods: what each asks for, in thousandths of cores and percent of so many cards, and which part of all
    kinds it is."""

    cpu: int
    percent: int
    cards: int
    part: float


def typical_of(workload: Workload, before: tuple[Typical, ...] = ()) -> tuple[Typical, ...]:
    """The kinds of pods with GPUs that arrive most; `before` where little has changed."""
    parts: dict[tuple[int, int, int], float] = {}
    for cls, part in workload.classes():
        if cls.price is None or cls.price.gpus <= 0.0:
            continue
        share = cls.price.share
        percent, cards = (share, 1) if share else (WHOLE, max(1, round(cls.price.gpus)))
        kind = (cls.requests.get(names.CPU, 0), percent, cards)
        parts[kind] = parts.get(kind, 0.0) + part
    listed = sorted(parts.items(), key=lambda each: (-each[1], each[0]))[:TYPICAL]
    whole = sum(part for _, part in listed)
    found = tuple(Typical(*kind, part / whole) for kind, part in listed)
    return before if before and _moved(before, found) < STAYS else found


def _moved(before: Iterable[Typical], now: Iterable[Typical]) -> float:
    """Which part of them is of another kind."""
    then = {each[:3]: each.part for each in before}
    there = {each[:3]: each.part for each in now}
    return sum(abs(then.get(kind, 0.0) - there.get(kind, 0.0)) for kind in then.keys() | there.keys()) / 2


def stranded_on(
    typical: Iterable[Typical], cpu: npt.NDArray[np.int64], percent: npt.NDArray[np.int16] | npt.NDArray[np.int64]
) -> Floats:
    """What is idle and of no use to typical pods, in percent of a card, on rows with so much `cpu` free and `percent`
    of each card; devices x rows."""
    idle = percent.sum(axis=0, dtype=np.int64)
    found = np.zeros(idle.shape)
    for kind in typical:
        enough = percent >= kind.percent
        lost = np.where(enough, 0, percent).sum(axis=0, dtype=np.int64)
        fits = (cpu >= kind.cpu) & (np.count_nonzero(enough, axis=0) >= kind.cards)
        found += kind.part * np.where(fits, lost, idle)
    return found


class Stranding:
    """By a pod that asks for `cpu` thousandths of cores and `percent` of each of so many cards."""

    def __init__(self, typical: tuple[Typical, ...], cpu: int, cards: int, percent: int) -> None:
        self._typical = typical
        self._cpu = cpu
        self._cards = cards
        self._percent = percent

    # --- many rows ---------------------------------------------------------------------------------------------------

    def more(self, cpu: npt.NDArray[np.int64], percent: npt.NDArray[np.int16]) -> Floats:
        """By how many cards more is stranded on each row, which has `cpu` free and `percent` of each card; devices x
        rows. The tightest cards that serve are taken."""
        serving = np.where(percent >= self._percent, percent, np.int16(WHOLE + 1))
        order = np.argsort(serving, axis=0, kind="stable")[: self._cards]
        after = percent.copy()
        taken = np.take_along_axis(after, order, axis=0)
        np.put_along_axis(after, order, np.maximum(taken - np.int16(self._percent), 0).astype(np.int16), axis=0)
        typical = self._typical
        found: Floats = (stranded_on(typical, cpu - self._cpu, after) - stranded_on(typical, cpu, percent)) / WHOLE
        return found

    # --- one row -----------------------------------------------------------------------------------------------------

    def more_on_one(self, cpu: int, free: Sequence[tuple[int, int]]) -> float:
        """The same of one row that takes the pod; `free` is how much of each card, and of how many."""
        left, after = self._cards, []
        for percent, devices in sorted(free) if self._cards > 1 or len(free) > 1 else free:
            taken = min(left, devices) if percent >= self._percent else 0
            left -= taken
            if devices > taken:
                after.append((percent, devices - taken))
            if taken and percent > self._percent:
                after.append((percent - self._percent, taken))
        return (self._on_one(cpu - self._cpu, after) - self._on_one(cpu, free)) / WHOLE

    def _on_one(self, cpu: int, free: Sequence[tuple[int, int]]) -> float:
        idle = 0
        for percent, devices in free:
            idle += percent * devices
        found: Any = 0.0
        for kind_cpu, kind_percent, kind_cards, part in self._typical:
            if cpu < kind_cpu:
                found += part * idle
                continue
            enough = lost = 0
            for percent, devices in free:
                if percent >= kind_percent:
                    enough += devices
                else:
                    lost += percent * devices
            found += part * (lost if enough >= kind_cards else idle)
        return float(found)
