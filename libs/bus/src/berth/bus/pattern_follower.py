"""Following keys of a pattern by asking (`asking`): at each beat the leader is asked for the newest message of them.

That is one question, however many keys there are, and as cheap for the server as one by name. Where it is newer than
what was read last, what lies between is read one by one. Where it is not what was read last, the stream is another one,
or has lost its tail; since another stream may be longer already, keys are read by name as well, now and then one, and
the one that was read last when there are news.
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
        newest = await self._newest()
        found = {key: stored for key, stored in await self._between(0, newest) if not stored.deleted}
        return found == {key: stored for key, stored in self._shown.items() if not stored.deleted}

    async def _read(self) -> None:
        newest = await self._newest()
        if not await self._is_same(newest):
            self._reset()
        self._beats += 1
        news = await self._between(self.sequence, newest)
        before, self._last = self._last, news[-1][0] if news else self._last
        self._show(news)
        for key in dict.fromkeys((before, *(key for key, _ in news))):
            # Of keys that are deleted only the last one that was read says anything.
            if key and key != self._last and self._shown[key].deleted:
                del self._shown[key]

    async def _newest(self) -> tuple[str, Stored] | None:
        """The key that was written last, with what it holds."""
        return self._named(await jetstream.find(self._link, f"KV_{self.bucket}", {"last_by_subj": self._pattern}))

    async def _between(self, sequence: int, newest: tuple[str, Stored] | None) -> list[tuple[str, Stored]]:
        """What there is behind a sequence, up to the newest, in order. Raises BusError."""
        found: list[tuple[str, Stored]] = []
        while newest is not None and sequence < newest[1].sequence:
            query: dict[str, object] = {"seq": sequence + 1, "next_by_subj": self._pattern}
            one = self._named(await jetstream.find(self._link, f"KV_{self.bucket}", query))
            if one is None:
                break
            sequence = one[1].sequence
            found.append(one)
        return found

    def _named(self, raw: jetstream.RawMessage | None) -> tuple[str, Stored] | None:
        return None if raw is None else (raw.subject.removeprefix(self._prefix), jetstream.stored(raw))

    async def _is_same(self, newest: tuple[str, Stored] | None) -> bool:
        """Whether the stream is the one that was read, as far as this can be seen. Raises BusError."""
        is_newer = newest is not None and newest[1].sequence > self.sequence
        while not is_newer and self._last and newest != (self._last, self._shown[self._last]):
            if not self._shown[self._last].deleted:
                return False
            # The marker has expired: what was read before it is the newest.
            del self._shown[self._last]
            self._last = max(self._shown, key=lambda key: self._shown[key].sequence, default="")
        if not self._last:
            # Nothing is known that could be read twice.
            self.sequence = 0
            return True
        asked = {self._last: None} if is_newer else {}
        if self._beats % CHECK_BEATS == 0:
            asked[list(self._shown)[self._beats // CHECK_BEATS % len(self._shown)]] = None
        return all([await self._holds(key) for key in asked])

    async def _holds(self, key: str) -> bool:
        """Whether a key has what was read of it, or what is to be read yet."""
        stored = await jetstream.newest(self._link, self.bucket, key)
        if stored is None:
            return self._shown[key].deleted
        return stored == self._shown[key] or stored.sequence > self.sequence

    def _disconnected(self) -> None:
        super()._disconnected()
        self._beats = 0

    def _reset(self) -> None:
        self._last = ""
        super()._reset()
