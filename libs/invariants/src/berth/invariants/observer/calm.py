"""A clock that stands still in times of trouble: what has to happen soon has to when nothing is in its way."""

from __future__ import annotations

from bisect import bisect_right

from berth.invariants.observer.verdicts import Verdicts

NEVER = float("inf")


class Calm:
    """Undisturbed seconds so far."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._begins: list[float] = []
        self._ends: list[float] = []
        self._before: list[float] = []
        """Times of trouble, in order and apart from each other, and how long all before each lasted."""

    @property
    def troubled_s(self) -> float:
        """How long there was trouble, that which is known to come included."""
        return self._before[-1] + self._ends[-1] - self._begins[-1] if self._begins else 0.0

    def trouble(self, for_s: float) -> None:
        """From now on for so long, things go wrong from outside."""
        now_s = self._verdicts.now_s
        if self._ends and now_s <= self._ends[-1]:
            self._ends[-1] = max(self._ends[-1], now_s + for_s)
            return
        self._before.append(self.troubled_s)
        self._begins.append(now_s)
        self._ends.append(now_s + for_s)

    @property
    def now_s(self) -> float:
        """What the clock shows."""
        return self.at(self._verdicts.now_s)

    def at(self, moment_s: float) -> float:
        """What the clock showed at a moment, or shows now."""
        last = bisect_right(self._begins, moment_s) - 1
        if last < 0:
            return moment_s
        return moment_s - self._before[last] - (min(moment_s, self._ends[last]) - self._begins[last])

    def since(self, moment_s: float) -> float:
        """Undisturbed seconds since a moment."""
        return self.now_s - self.at(moment_s)
