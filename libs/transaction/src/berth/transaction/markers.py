"""Deletion markers that were read, in that order, until the server has dropped them too."""

from __future__ import annotations

from collections import deque


class Markers:
    """Keys with the sequences of their markers. It has no clock: a marker's time counts from the next look at it."""

    def __init__(self) -> None:
        self._new: list[tuple[str, int]] = []
        self._seen: deque[tuple[float, list[tuple[str, int]]]] = deque()

    def add(self, key: str, sequence: int) -> None:
        """A marker was read."""
        self._new.append((key, sequence))

    def expired(self, now_s: float, kept_s: float) -> list[tuple[str, int]]:
        """Take out what a look at least `kept_s` ago has found here already. Costs what was added and what is returned.

        Args:
            now_s: of a clock that does not go back, always the same one.
            kept_s: 0 takes out everything.
        """
        if self._new:
            self._seen.append((now_s, self._new))
            self._new = []
        found: list[tuple[str, int]] = []
        while self._seen and now_s - self._seen[0][0] >= kept_s:
            found += self._seen.popleft()[1]
        return found
