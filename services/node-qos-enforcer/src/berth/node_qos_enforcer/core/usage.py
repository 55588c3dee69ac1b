"""Usage from counters: what was consumed between two readings of the same counter.

A counter of the kernel only grows while its owner lives. So a first reading, a counter that went back (its group was
made anew), a reading that does not advance the clock, or one after a pause gives *no* usage; it never gives zero or a
negative one.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

MAX_SERIES = 20_000
"""Counters remembered at most; further ones have no usage until others are gone."""


class Reading(NamedTuple):
    """A counter (nanoseconds of CPU time), when it was read (monotonic seconds), and which incarnation of its owner."""

    value_ns: int
    at: float
    incarnation: int = 0


def cores_between(before: Reading | None, now: Reading, *, max_gap_s: float) -> float | None:
    """Return the average number of cores in use between two readings, or None when they don't tell.

    Args:
        before: the previous reading of the same counter; None: there is none.
        now: the present one.
        max_gap_s: a longer pause gives no usage, because its average says nothing about now.
    """
    if before is None or before.incarnation != now.incarnation or now.value_ns < before.value_ns:
        return None
    gap_s = now.at - before.at
    if not 0 < gap_s <= max_gap_s:
        return None
    return (now.value_ns - before.value_ns) / 1e9 / gap_s


class Counters:
    """The last reading of every counter, by name."""

    def __init__(self, *, max_gap_s: float, max_cores: float) -> None:
        """Set the longest pause between readings, and a usage above which a reading is not believed."""
        self.max_gap_s = max_gap_s
        self.max_cores = max_cores
        self._last: dict[str, Reading] = {}

    def cores(self, name: str, reading: Reading) -> float | None:
        """Take a reading and return the usage since the one before, if both tell."""
        before = self._last.get(name)
        if before is None and len(self._last) >= MAX_SERIES:
            return None
        self._last[name] = reading
        cores = cores_between(before, reading, max_gap_s=self.max_gap_s)
        return cores if cores is not None and cores <= self.max_cores else None

    def keep_only(self, names: Set[str]) -> None:
        """Forget counters whose owner is gone, so that a successor begins anew."""
        for name in self._last.keys() - names:
            del self._last[name]

    def __len__(self) -> int:
        """Return how many counters are remembered."""
        return len(self._last)
