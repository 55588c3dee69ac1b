"""A clock that stands still in times of trouble: what has to happen soon has to when nothing is in its way."""

from __future__ import annotations

from berth.invariants.observer.verdicts import Verdicts

NEVER = float("inf")


class Calm:
    """Undisturbed seconds so far."""

    def __init__(self, verdicts: Verdicts) -> None:
        self.troubled_s = 0.0
        """How long there was trouble, that which is known to come included."""
        self._verdicts = verdicts
        self._until_s = -NEVER

    def trouble(self, for_s: float) -> None:
        """From now on for so long, things go wrong from outside."""
        now_s = self._verdicts.now_s
        until_s = max(self._until_s, now_s + for_s)
        self.troubled_s += until_s - max(self._until_s, now_s)
        self._until_s = until_s

    @property
    def now_s(self) -> float:
        """What the clock shows."""
        now_s = self._verdicts.now_s
        return now_s - self.troubled_s + max(0.0, self._until_s - now_s)
