"""Looking at the leader of a stream while a consumer delivers from it (R16).

The server that a consumer is on may be cut off from the others, or never find back to them, while the stream goes on
without it, and without what it delivered last. Its heartbeats come all the same. So the leader is asked: what a stream
is, who leads it and how far it goes, whether the newest message known is stored there, and what is stored behind it.
Two or three requests every few seconds, never one for each message; nothing waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as randomness
from typing import NamedTuple, Protocol

from berth.bus import jetstream
from berth.bus.errors import BusError, describe
from berth.bus.history import History, Known
from berth.bus.jetstream import StreamInfo
from berth.bus.link import Link
from berth.bus.logs import FieldLogger

log = FieldLogger(__name__)

LOOK_EVERY_S = 3.0
LOOK_FIRST_S = 0.5
"""A consumer that was just made may be on a server that is behind, or on a history of its own."""
LOOK_AGAIN_S = 0.25
"""After a look that raised a suspicion."""


class Suspicion(NamedTuple):
    """Why the consumer should be made anew, once so many looks in a row have shown it."""

    reason: str
    looks: int = 1


class Reader(Protocol):
    """Who reads the stream."""

    sequence: int
    """Through which it has read."""

    @property
    def has_backlog(self) -> bool:
        """Deliveries are at hand."""
        ...

    def begin_again(self, reason: str) -> None:
        """Make the consumer anew, and compare everything."""
        ...


class LeaderWatch:
    """Looks at the leader of the stream that somebody reads, and has him begin again for what is certain."""

    def __init__(
        self,
        link: Link,
        stream: str,
        history: History,
        reader: Reader,
        *,
        random: randomness.Random,
    ) -> None:
        self._link = link
        self._stream = stream
        self._history = history
        self._reader = reader
        self._random = random
        self._soon = asyncio.Event()
        self._confirmed: Known | None = None
        self._stood_at: int | None = None
        self._passed_over = 0

    def look_soon(self) -> None:
        """Something is odd: look now."""
        self._soon.set()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        self._soon.clear()
        self._confirmed, self._stood_at, self._passed_over = None, None, 0
        looks, pause_s = 0, LOOK_FIRST_S
        while True:
            await self._rest(pause_s * self._random.uniform(0.8, 1.0))
            pause_s = LOOK_EVERY_S
            try:
                found = await self.look()
            except BusError as error:
                log.debug("cannot look at the leader of a stream", stream=self._stream, error=describe(error))
                continue
            looks = looks + 1 if found else 0
            if found:
                pause_s = LOOK_AGAIN_S
                if looks >= found.looks:
                    self._reader.begin_again(found.reason)
                    looks = 0

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._soon.wait()
        self._soon.clear()

    async def look(self) -> Suspicion | None:
        """Ask the leader. Raises BusError."""
        last = self._history.last()  # what is read while the answer is on its way may not be in it
        info = await jetstream.stream_info(self._link, self._stream)
        return await self.judge(info, last) or await self._is_passed_over(info)

    async def judge(self, info: StreamInfo, last: int) -> Suspicion | None:
        """Whether the stream that has `last` is another one, or has lost something that was read. Raises BusError."""
        history = self._history
        different = history.difference(info, last)
        if different:
            # A server that has just come to lead may take a moment to say all that it has.
            return Suspicion(different, looks=2)
        leader, newest = info.led_by(self._link.server_id), history.recent[-1] if history.recent else None
        if leader == history.leader and newest == self._confirmed:
            return None
        is_kept = await history.is_kept(self._reader.sequence, leader)
        if is_kept is False:
            return Suspicion("the stream lost its tail and went on")
        if is_kept is None and not leader.is_still(history.leader):
            # What comes meanwhile is remembered, too, and may prove what is behind it.
            return Suspicion("another leader, and nothing is left of what was read last", looks=5)
        self._confirmed, history.leader = newest, leader
        return None

    async def _is_passed_over(self, info: StreamInfo) -> Suspicion | None:
        """Whether something is stored that the consumer does not deliver, although nothing else has come meanwhile."""
        at = self._reader.sequence
        stood_at, self._stood_at = self._stood_at, at
        before, self._passed_over = self._passed_over, 0
        if at != stood_at or info.state.last_seq <= at or self._reader.has_backlog:
            return None
        ahead = await self._history.after(at)
        if not ahead or self._reader.sequence != at:
            return None
        self._passed_over = ahead
        return Suspicion("the consumer passes over what is stored") if ahead == before else None
