"""Following by asking a stream's leader, again and again, instead of having it deliver.

No consumer is made, so this way needs no other right than to read messages of the bucket. That matters in the accounts
of node agents: a consumer delivers wherever its maker says, and its maker's rights are not asked.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from abc import ABC, abstractmethod

from berth.bus import metrics
from berth.bus.errors import BusError, describe
from berth.bus.follower import RETRY_FIRST_S, RETRY_MAX_S
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock, Entry, Sink, Stored

log = FieldLogger(__name__)


class AskingFollower(ABC):
    """What those who ask have in common. See `berth.bus.port.FollowerPort`."""

    def __init__(self, link: Link, bucket: str, sink: Sink, *, clock: Clock, random: randomness.Random) -> None:
        self.ready = asyncio.Event()
        self.attached = asyncio.Event()
        self.sequence = 0
        self.created = ""
        self.bucket = bucket
        self._link = link
        self._sink = sink
        self._prefix = f"$KV.{bucket}."
        self._clock = clock
        self._random = random
        self._shown: dict[str, Stored] = {}  # what the sink was shown of each key
        self._entries = metrics.ENTRIES.labels(bucket)

    async def run(self) -> None:
        """Follow until cancelled."""
        unhook = self._link.on_disconnect(self._disconnected)
        pause_s = RETRY_FIRST_S
        try:
            while True:
                await self._link.connected.wait()
                try:
                    await self._read()
                except BusError as error:
                    level = logging.WARNING if self.attached.is_set() or pause_s == RETRY_FIRST_S else logging.DEBUG
                    log.at(level, "cannot read a bucket, trying again", bucket=self.bucket, error=describe(error))
                    self.attached.clear()
                    await self._clock.sleep(pause_s * self._random.uniform(0.5, 1.0))
                    pause_s = min(pause_s * 2, RETRY_MAX_S)
                    continue
                pause_s = RETRY_FIRST_S
                await self._link.beat.next()
        finally:
            unhook()
            self.attached.clear()

    @abstractmethod
    async def _read(self) -> None:
        """Ask, and show the sink what is new. Raises BusError."""

    def _disconnected(self) -> None:
        self.attached.clear()

    def _show(self, news: list[tuple[str, Stored]]) -> None:
        """Show the sink what is new, in its order, and that this was the end."""
        self.attached.set()
        for pending, (key, stored) in zip(range(len(news) - 1, -1, -1), news, strict=True):
            self._shown[key] = stored
            gap = stored.sequence != self.sequence + 1
            self.sequence = max(self.sequence, stored.sequence)
            self._sink.apply(Entry(key, stored.value, stored.deleted, stored.sequence, pending, gap, None))
        self._entries.inc(len(news))
        self.ready.set()
        self._sink.end(self.sequence)

    def _reset(self) -> None:
        log.warning("reading a bucket again from its start", bucket=self.bucket, reason="it lost what it held")
        metrics.FOLLOWER_RESETS.labels(self.bucket).inc()
        self.sequence = 0
        self._shown.clear()
        self._sink.reset()
