"""The queue between the watches and the bus, in the order of the API server.

Watches append what they read and wait when the queue is full; one publisher takes it out again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from berth.bus.port import Clock
from berth.cluster_watcher.source import Source

WAITING_MAX: Final = 2048
TURN: Final = 64
"""Changes read before other tasks get a turn."""


class Put(NamedTuple):
    """An object came or changed."""

    source: Source
    key: str
    version: int
    value: bytes
    traceparent: str | None = None


class Gone(NamedTuple):
    """An object was deleted at this version."""

    source: Source
    key: str
    version: int


class Nothing(NamedTuple):
    """The kind moved on to this version with nothing to write: the change does not fit the bus."""

    source: Source
    version: int


class Began(NamedTuple):
    """A list begins."""

    source: Source


class Finished(NamedTuple):
    """A list is complete and shows the moment `version`; `keys` are all there is."""

    source: Source
    version: int
    keys: frozenset[str]


class Reached(NamedTuple):
    """A bookmark: everything up to `version` was handed over."""

    source: Source
    version: int


class Absent(NamedTuple):
    """The kind is not installed: there are no objects of it."""

    source: Source


Step = Put | Gone | Nothing | Began | Finished | Reached | Absent


class Outbox:
    """Steps on their way to the bus."""

    def __init__(self, clock: Clock) -> None:
        self.some = asyncio.Event()
        self.since = 0.0
        """When the oldest step of the queue came, by the monotonic clock, as far as that is known."""
        self.taken = 0
        """How many steps were ever taken."""
        self._clock = clock
        self._steps: deque[Step] = deque()
        self._space = asyncio.Event()
        self._turn = 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: Step) -> None:
        """One more step; see `wait_while_full`."""
        if not self._steps:
            self.since = self._clock.monotonic()
            self.some.set()
        self._steps.append(step)

    def first(self) -> Step | None:
        """The next step, which stays."""
        return self._steps[0] if self._steps else None

    def take(self) -> None:
        """Remove the next step."""
        self._steps.popleft()
        self.taken += 1
        self._loosen()

    def again(self, steps: list[Step]) -> None:
        """Put steps back before all others, in this order."""
        self._steps.extendleft(reversed(steps))
        if self._steps:
            self.some.set()

    def clear(self) -> None:
        """Nothing of this matters any more."""
        self._steps.clear()
        self._loosen()

    def settled(self) -> None:
        """A batch is done: what is left came after it."""
        self.since = self._clock.monotonic()
        if not self._steps:
            self.some.clear()

    async def wait_while_full(self) -> None:
        """Return once there is space, giving other tasks a turn now and then."""
        self._turn += 1
        if self._turn % TURN == 0:
            await asyncio.sleep(0)
        while len(self._steps) >= WAITING_MAX:
            self._space.clear()
            await self._space.wait()

    def _loosen(self) -> None:
        if len(self._steps) < WAITING_MAX // 2:
            self._space.set()
