"""Which rows changed, in order, for readers that each stand at their own place. Bounded: old entries are forgotten."""

from __future__ import annotations

from typing import Final

ENTRIES_MAX: Final = 1 << 16


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

    def since(self, position: int) -> list[int] | None:
        """The rows changed since a position, each once, rising; None when that is no longer known."""
        if position < self._start:
            return None
        return sorted(set(self._rows[position - self._start :]))
