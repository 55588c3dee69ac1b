"""Which rows changed, in order, for readers that each stand at their own place. Bounded: old entries are forgotten."""

from __future__ import annotations

from typing import Final

ENTRIES_MAX: Final = 1 << 16
ENTRIES_PER_ROW: Final = 8
"""How often a row may have changed, on average, for its changes to be gone through."""


class ChangeLog:
    """An append-only list of rows with absolute positions, of which only the newest part is kept."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._rows: list[int] = []
        self._start = 0
        self._max = entries_max

    @property
    def end(self) -> int:
        """The position behind the newest entry."""
        return self._start + len(self._rows)

    def add(self, row: int) -> None:
        """A row changed."""
        self._rows.append(row)
        if len(self._rows) > 2 * self._max:
            del self._rows[: self._max]
            self._start += self._max

    def since(self, position: int, at_most: int = ENTRIES_MAX) -> list[int] | None:
        """The rows changed since a position, each once, rising. None when that is no longer known, or they are more
        than `at_most`, so that to look at all rows costs less."""
        behind = self._start + len(self._rows) - position
        if behind == 0:
            return []
        if behind == 1:
            return self._rows[-1:]
        if position < self._start or behind > ENTRIES_PER_ROW * at_most:
            return None
        rows = set(self._rows[position - self._start :])
        return sorted(rows) if len(rows) <= at_most else None
