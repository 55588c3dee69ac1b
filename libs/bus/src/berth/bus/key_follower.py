"""Following keys that are known by name: each is read from its stream's leader, again and again.

No consumer is made, so this way needs no other right than to read messages of the bucket. That matters in the accounts
of node agents: a consumer delivers wherever its maker says, and its maker's rights are not asked.

What is read is compared with what was read before. A key that is gone without a deletion marker, or that went back,
says that the stream is another one or lost its tail: the sink starts over with an empty view.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as randomness
from collections.abc import Sequence

from berth.bus import jetstream, metrics
from berth.bus.errors import BusError, describe
from berth.bus.follower import RETRY_FIRST_S, RETRY_MAX_S
from berth.bus.keys import check_key
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock, Entry, Sink, Stored

log = FieldLogger(__name__)

READ_EVERY_S = 1.0


class KeyFollower:
    """A reader of some keys of one bucket. See `berth.bus.port.FollowerPort`."""

    def __init__(
        self,
        link: Link,
        bucket: str,
        sink: Sink,
        *,
        keys: Sequence[str],
        clock: Clock,
        random: randomness.Random,
    ) -> None:
        for key in keys:
            check_key(key)
        self.ready = asyncio.Event()
        self.attached = asyncio.Event()
        self.sequence = 0
        self.created = ""
        self.bucket = bucket
        self._link = link
        self._sink = sink
        self._keys = tuple(keys)
        self._prefix = f"$KV.{bucket}."
        self._clock = clock
        self._random = random
        self._shown: dict[str, Stored] = {}  # what the sink was shown of each key
        self._stored: dict[str, int] = {}  # newest sequence of each key that was acknowledged to this process
        self._lost = asyncio.Event()
        self._entries = metrics.ENTRIES.labels(bucket)

    async def run(self) -> None:
        """Follow until cancelled."""
        unhook = self._link.on_disconnect(self._disconnected)
        pause_s = RETRY_FIRST_S
        try:
            while True:
                await self._link.connected.wait()
                self._lost.clear()
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
                await self._rest(READ_EVERY_S * self._random.uniform(0.8, 1.0))
        finally:
            unhook()
            self.attached.clear()

    async def has_all(self) -> bool:
        """See `berth.bus.port.FollowerPort`. Raises BusError."""
        found = {key: await jetstream.newest(self._link, self.bucket, key) for key in self._keys}
        return {key: stored for key, stored in found.items() if stored is not None} == self._shown

    def witness(self, sequence: int, subject: str, data: bytes, *, era: str = "", time_ns: int = 0) -> None:
        """Note a message that the stream acknowledged to this process, so that its loss is noticed too."""
        key = subject[len(self._prefix) :]
        self._stored[key] = max(sequence, self._stored.get(key, 0))

    def _disconnected(self) -> None:
        self.attached.clear()
        self._lost.set()

    async def _rest(self, seconds: float) -> None:
        """Until it is time to read again, or the connection was lost: then with the next one at once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lost.wait()

    async def _read(self) -> None:
        """Read every key, and show the sink what is new."""
        before = dict(self._stored)  # what is acknowledged while an answer is on its way may not be in it
        found = {key: await jetstream.newest(self._link, self.bucket, key) for key in self._keys}
        if any(self._went_back(key, found[key], before.get(key, 0)) for key in self._keys):
            self._reset()
        news = [(key, stored) for key, stored in found.items() if stored is not None and self._is_news(key, stored)]
        news.sort(key=lambda each: each[1].sequence)
        self.attached.set()
        for pending, (key, stored) in zip(range(len(news) - 1, -1, -1), news, strict=True):
            self._shown[key] = stored
            gap = stored.sequence != self.sequence + 1
            self.sequence = max(self.sequence, stored.sequence)
            self._sink.apply(Entry(key, stored.value, stored.deleted, stored.sequence, pending, gap, None))
        self._entries.inc(len(news))
        self.ready.set()
        self._sink.end(self.sequence)

    def _is_news(self, key: str, stored: Stored) -> bool:
        shown = self._shown.get(key)
        return shown is None or stored.sequence > shown.sequence

    def _went_back(self, key: str, stored: Stored | None, acknowledged: int) -> bool:
        """Whether this is not what the key held, nor anything newer. A marker may have expired meanwhile."""
        shown = self._shown.get(key)
        if stored is None:
            return acknowledged > (0 if shown is None else shown.sequence) or (shown is not None and not shown.deleted)
        if stored.sequence < max(acknowledged, 0 if shown is None else shown.sequence):
            return True
        return shown is not None and stored.sequence == shown.sequence and stored != shown

    def _reset(self) -> None:
        log.warning("reading a bucket again from its start", bucket=self.bucket, reason="it lost what it held")
        metrics.FOLLOWER_RESETS.labels(self.bucket).inc()
        self.sequence = 0
        self._shown.clear()
        self._stored.clear()
        self._sink.reset()
