"""Following keys of a pattern by asking (`asking`): at each beat the leader is asked what is behind what was read.

That is one question, however many keys there are. Whether the stream still is the one that was read is asked now and
then, and with each new connection: what was read last has to be there, or something newer of its key.
"""

from __future__ import annotations

import random as randomness
from typing import Final

from berth.bus import jetstream
from berth.bus.asking import AskingFollower
from berth.bus.link import Link
from berth.bus.port import Clock, Sink, Stored

CHECK_BEATS: Final = 10


class PatternFollower(AskingFollower):
    """A reader of keys of one bucket, in the order in which they were stored. See `berth.bus.port.FollowerPort`."""

    def __init__(
        self, link: Link, bucket: str, sink: Sink, *, pattern: str, clock: Clock, random: randomness.Random
    ) -> None:
        super().__init__(link, bucket, sink, clock=clock, random=random)
        self._pattern = f"{self._prefix}{pattern}"
        self._last = ""  # the key that was read last
        self._beats = 0

    async def has_all(self) -> bool:
        """See `berth.bus.port.FollowerPort`. Raises BusError."""
        found = {key: stored for key, stored in await self._news(0) if not stored.deleted}
        return found == {key: stored for key, stored in self._shown.items() if not stored.deleted}

    async def _read(self) -> None:
        if self._beats % CHECK_BEATS == 0 and not await self._is_same():
            self._reset()
        self._beats += 1
        news = await self._news(self.sequence)
        before, self._last = self._last, news[-1][0] if news else self._last
        self._show(news)
        for key in (before, *(key for key, _ in news)):
            # Of keys that are deleted only the last one that was read says anything.
            if key and key != self._last and self._shown[key].deleted:
                del self._shown[key]

    async def _news(self, sequence: int) -> list[tuple[str, Stored]]:
        """What there is behind a sequence, in order. Raises BusError."""
        found: list[tuple[str, Stored]] = []
        while True:
            query: dict[str, object] = {"seq": sequence + 1, "next_by_subj": self._pattern}
            raw = await jetstream.find(self._link, f"KV_{self.bucket}", query)
            if raw is None:
                return found
            sequence = raw.seq
            found.append((raw.subject.removeprefix(self._prefix), jetstream.stored(raw)))

    async def _is_same(self) -> bool:
        """Whether the stream holds what was read last, and another key in its turn, or what is to be read of them yet.
        Raises BusError."""
        if not self._last:
            return True
        in_turn = list(self._shown)[self._beats // CHECK_BEATS % len(self._shown)]
        for key in {self._last: None, in_turn: None}:
            shown = self._shown[key]
            stored = await jetstream.newest(self._link, self.bucket, key)
            if stored is None and shown.deleted:
                self._marker_expired(key)
            elif stored is None or not (stored == shown or stored.sequence > self.sequence):
                return False
        return True

    def _marker_expired(self, key: str) -> None:
        """What was read before it says the same. Where that is nothing, there is nothing that would be read twice."""
        del self._shown[key]
        self._last = max(self._shown, key=lambda key: self._shown[key].sequence, default="")
        if not self._last:
            self.sequence = 0

    def _disconnected(self) -> None:
        super()._disconnected()
        self._beats = 0

    def _reset(self) -> None:
        self._last = ""
        super()._reset()
