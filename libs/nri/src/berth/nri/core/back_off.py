"""How long to pause before the next connection."""

from __future__ import annotations


class BackOff:
    """Pauses that double from `first_s` to `most_s`, each up to `jitter` (a share) longer.

    After a connection that held they start over. It never ends: a runtime that is away comes back.
    """

    def __init__(self, first_s: float = 1.0, most_s: float = 30.0, jitter: float = 0.1, held_s: float = 6.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._jitter = jitter
        self._held_s = held_s
        self._pause_s = first_s

    def after(self, lived_s: float, chance: float) -> float:
        """Seconds to pause after a connection of `lived_s` (0 for none at all); `chance` is a number from 0 to 1."""
        if lived_s >= self._held_s:
            self._pause_s = self._first_s
        pause_s = self._pause_s
        self._pause_s = min(self._pause_s * 2, self._most_s)
        return min(pause_s, self._most_s) * (1 + self._jitter * chance)
