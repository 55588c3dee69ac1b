"""Whether a durable consumer is still level with its work queue, by the words of the leaders of both.

A stream of several servers may lose its tail. Its consumer has leader and history of its own: it can be ahead of the
stream then, and would pass over what is stored next; or stay on a server that does not find back to the others, where
nothing more arrives; or the stream's leader does not hear what was acknowledged, and keeps it. The heartbeats come all
the same. What is handled leaves the queue: one that holds something while nothing is outstanding is not being read.
What is outstanding comes again after a pause that ends: a consumer of which nothing comes for longer is not being read
either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from berth.bus import jetstream
from berth.bus.errors import BusError, describe
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock

log = FieldLogger(__name__)

LOOK_EVERY_S = 3.0
STUCK_S = 120.0
"""Longer than any pause before another delivery."""
LOOKS = 2
"""A leader that was just elected takes a moment to say all that it has."""


class Position(msgspec.Struct, frozen=True):
    """Sequence of the stream, and of the consumer's deliveries."""

    stream_seq: int = 0
    consumer_seq: int = 0


class ConsumerInfo(msgspec.Struct, frozen=True):
    """A consumer, as its leader knows it: all through `ack_floor` is done, `num_ack_pending` behind it are not yet."""

    delivered: Position = Position()
    ack_floor: Position = Position()
    num_ack_pending: int = 0


class _Still(NamedTuple):
    """The first message of a queue, and how far it was delivered; -1: it is done, and should be gone."""

    first: int
    delivered: int


class ConsumerWatch:
    """Looks at one consumer of a work queue that nobody else reads."""

    def __init__(self, link: Link, stream: str, durable: str, clock: Clock) -> None:
        self._link = link
        self._stream = stream
        self._durable = durable
        self._clock = clock
        self._still: _Still | None = None
        self._silent: tuple[int, float] | None = None
        """The last delivery of what is outstanding, and since when that is the last one."""

    async def run(self, is_idle: Callable[[], bool], renew: Callable[[str], Awaitable[None]]) -> None:
        """Look again and again; `renew(reason)` has the consumer made anew. `is_idle`: nothing is held here."""
        looks = 0
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            try:
                reason = await self.look(is_idle=is_idle())
                looks = looks + 1 if reason else 0
                if looks >= LOOKS:
                    looks = 0
                    await renew(reason)
            except BusError as error:
                log.debug("cannot look at a consumer", consumer=self._durable, error=describe(error))

    async def look(self, *, is_idle: bool) -> str:
        """Why the consumer is not level with the stream; empty: it is, or may be. Raises BusError."""
        # In this order, for what the consumer has delivered by then is in the stream by then.
        name = f"CONSUMER.INFO.{self._stream}.{self._durable}"
        consumer = jetstream.read(await jetstream.call(self._link, name), ConsumerInfo, name)
        state = (await jetstream.stream_info(self._link, self._stream)).state
        delivered = consumer.delivered.stream_seq
        before, self._still = self._still, None
        silent, self._silent = self._silent, None
        if delivered > state.last_seq:
            return f"it has delivered through {delivered}, the stream ends at {state.last_seq}"
        if state.messages and state.first_seq <= consumer.ack_floor.stream_seq:
            self._still = _Still(state.first_seq, -1)
        elif state.messages and is_idle and not consumer.num_ack_pending:
            self._still = _Still(state.first_seq, delivered)
        elif state.messages and is_idle:
            return self._outstanding(consumer.delivered.consumer_seq, silent)
        if self._still is not None and self._still == before:
            return f"{state.first_seq} stays in the stream"
        return ""

    def _outstanding(self, last: int, before: tuple[int, float] | None) -> str:
        """Why what is outstanding, and not held here, does not come again; empty: it may yet."""
        now = self._clock.monotonic()
        since = before[1] if before is not None and before[0] == last else now
        self._silent = last, since
        return f"nothing came after delivery {last} for {now - since:.0f} s" if now - since > STUCK_S else ""
