"""When a process reads what it follows by asking: all of it at the same moments, so that it is woken, writes and reads
once for many questions, not once for each."""

from __future__ import annotations

import asyncio
import random as randomness

EVERY_S = 1.0
"""The longest time between two moments. Processes that were started together drift apart."""


class Beat:
    """The moments of one connection. They come while somebody waits for them."""

    def __init__(self, random: randomness.Random, every_s: float | None = None) -> None:
        self._random = random
        self._every_s = EVERY_S if every_s is None else every_s
        self._next: asyncio.Event | None = None

    async def next(self) -> None:
        """Return at the next moment, which is the same for all who wait."""
        if self._next is None:
            self._next = asyncio.Event()
            seconds = self._every_s * self._random.uniform(0.8, 1.0)
            asyncio.get_running_loop().call_later(seconds, self._come, self._next)
        await self._next.wait()

    def hurry(self) -> None:
        """The moment is now: what was known of the connection does not count any more."""
        if self._next is not None:
            self._come(self._next)

    def _come(self, moment: asyncio.Event) -> None:
        moment.set()
        if self._next is moment:
            self._next = None
