"""Following keys that are known by name: each is read from its stream's leader at each beat (`asking`), or at every
so many where nobody else is to write them.

What is read is compared with what was read before. A key that is gone without a deletion marker, or that went back,
says that the stream is another one or lost its tail: the sink starts over with an empty view.
"""

from __future__ import annotations

import random as randomness
from collections.abc import Callable, Sequence
from zlib import crc32

from berth.bus import jetstream
from berth.bus.asking import AskingFollower
from berth.bus.keys import check_key
from berth.bus.link import Link
from berth.bus.port import Clock, Sink, Stored


class KeyFollower(AskingFollower):
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
        every: int = 1,
        is_hasty: Callable[[], bool] = lambda: True,
    ) -> None:
        """Follow `keys`, at one beat of so many while nothing is hasty; followers take turns."""
        for key in keys:
            check_key(key)
        super().__init__(link, bucket, sink, clock=clock, random=random)
        self._keys = tuple(keys)
        self._every = every
        self._is_hasty = is_hasty
        self._beats = crc32(" ".join(keys).encode())
        self._stored: dict[str, int] = {}  # newest sequence of each key that was acknowledged to this process

    async def has_all(self) -> bool:
        """See `berth.bus.port.FollowerPort`. Raises BusError."""
        found = {key: await jetstream.newest(self._link, self.bucket, key) for key in self._keys}
        return {key: stored for key, stored in found.items() if stored is not None} == self._shown

    def witness(self, sequence: int, subject: str, data: bytes, *, era: str = "", time_ns: int = 0) -> None:
        """Note a message that the stream acknowledged to this process, so that its loss is noticed too."""
        key = subject[len(self._prefix) :]
        self._stored[key] = max(sequence, self._stored.get(key, 0))

    async def _read(self) -> None:
        """Read every key, and show the sink what is new."""
        self._beats += 1
        if self.attached.is_set() and self._beats % self._every and not self._is_hasty():
            return
        before = dict(self._stored)  # what is acknowledged while an answer is on its way may not be in it
        found = {key: await jetstream.newest(self._link, self.bucket, key) for key in self._keys}
        if any(self._went_back(key, found[key], before.get(key, 0)) for key in self._keys):
            self._reset()
        news = [(key, stored) for key, stored in found.items() if stored is not None and self._is_news(key, stored)]
        self._show(sorted(news, key=lambda each: each[1].sequence))

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
        self._stored.clear()
        super()._reset()
