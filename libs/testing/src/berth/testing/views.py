"""What tests of anything on the bus need: a sink that remembers, and waiting with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from berth.bus import Entry

DEADLINE_S = 20.0


class View:
    """A sink that keeps what a bucket holds, and everything it was given, in order."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.entries: list[Entry] = []
        self.ends: list[int] = []
        self.idle_ends = 0
        self.resets = 0
        self._has_news = True

    def reset(self) -> None:
        """Empty the view."""
        self.resets += 1
        self._has_news = True
        self.values.clear()

    def apply(self, entry: Entry) -> None:
        """Take the next entry."""
        self.entries.append(entry)
        self._has_news = True
        if entry.deleted:
            self.values.pop(entry.key, None)
        else:
            self.values[entry.key] = entry.value

    def end(self, sequence: int) -> None:
        """Note that the end was reached; one that is only said again, while nothing new comes, is counted apart."""
        if self._has_news:
            self.ends.append(sequence)
        else:
            self.idle_ends += 1
        self._has_news = False


async def eventually(condition: Callable[[], object], *, deadline_s: float = DEADLINE_S, what: str = "") -> None:
    """Return once `condition()` is true. Raises AssertionError after the deadline."""
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, f"not within {deadline_s:g} s: {what or condition}"
        await asyncio.sleep(0.01)


async def eventually_async(condition: Callable[[], Awaitable[object]], *, deadline_s: float = DEADLINE_S) -> None:
    """As `eventually`, for a condition that must be awaited."""
    until = time.monotonic() + deadline_s
    while not await condition():
        assert time.monotonic() < until, f"not within {deadline_s:g} s: {condition}"
        await asyncio.sleep(0.02)
