"""What a reader knows of a stream, and whether the stream still has it.

A stream may be deleted and made again, or lose its newest messages: a server comes back with an older store, or one
with an older store comes to lead. It then uses sequences again, so a sequence alone proves nothing. What is compared is
what the stream's leader says, whichever server the reader is connected to.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from berth.bus import jetstream
from berth.bus.link import Link

LENGTH = 256
"""Messages remembered. Where more were read since a leader's term began, everything is read again."""
SKEW_NS = 5 * jetstream.NANO
"""How far the clocks of a cluster's servers may be apart."""

_Known: TypeAlias = tuple[int, int, str, int]
"""A message that the stream held: sequence, when it was stored (0: acknowledged to this process, not seen here yet),
subject, and the hash of what was written, which is for the acknowledged alone. Plain, since one is made for every
delivery."""


class History:
    """Of one stream: when it was made, who led it, and the last messages known to be stored."""

    def __init__(self, link: Link, stream: str) -> None:
        self._link = link
        self._stream = stream
        self._created = ""
        self._leader = ""
        self._recent: deque[_Known] = deque(maxlen=LENGTH)  # newest last

    @property
    def newest(self) -> int:
        """The last sequence that the stream is known to have had."""
        return self._recent[-1][0] if self._recent else 0

    def began(self, info: jetstream.StreamInfo) -> None:
        """What is read from now on is of this stream, under this leader."""
        self._created, self._leader = info.created, self._leader_of(info)

    def read(self, sequence: int, time: int, subject: str) -> None:
        """A message was delivered, that was stored at this time."""
        recent = self._recent
        if not recent or sequence > recent[-1][0]:
            recent.append((sequence, time, subject, 0))

    def witness(self, sequence: int, subject: str, data: bytes) -> None:
        """Note a message that the stream acknowledged to this process, so that its loss is noticed too."""
        if not self._recent or sequence > self._recent[-1][0]:
            self._recent.append((sequence, 0, subject, hash(data)))

    def forget(self) -> None:
        """Another stream, for all that is known."""
        self._created = self._leader = ""
        self._recent.clear()

    def is_of(self, info: jetstream.StreamInfo, newest: int) -> bool:
        """Whether this is the stream that was read, as far as its name tag and its end say."""
        return info.created == self._created and info.state.last_seq >= newest

    def is_doubtful(self, info: jetstream.StreamInfo, newest: int) -> bool:
        """Whether messages have to be compared: the leader that was asked is another one, or its stream is.

        `newest`: what `newest` was before the leader was asked.
        """
        return not self.is_of(info, newest) or self._leader_of(info) != self._leader

    async def lost(self, info: jetstream.StreamInfo, newest: int) -> str:
        """What has become of the stream that was read; empty: it is the one. Raises BusError."""
        if not self._created:
            return ""
        if info.created != self._created:
            return "another stream"
        if info.state.last_seq < newest:
            return "the stream lost its tail"
        return "" if await self._is_same(info) else "the stream lost its tail and went on"

    async def _is_same(self, info: jetstream.StreamInfo) -> bool:
        """Whether the last messages known are still the ones stored.

        The newest message that was not replaced meanwhile is compared. It says nothing of those behind it, which may
        have been replaced or lost: there a leader that has led ever since is trusted, and no other.
        """
        known = list(reversed(self._recent))  # what is on its way may add to it meanwhile
        if self._leader == self._leader_of(info):
            for each in known:
                if (same := await self._has(each)) is not None:
                    return same
            return True
        if info.led_since_ns:
            return await self._has_before(known, info.led_since_ns)
        return not known or bool(await self._has(known[0]))

    async def _has_before(self, known: list[_Known], since_ns: int) -> bool:
        """Whether the leader of a new term has what was read under the one before.

        The connection may have stood, so that messages of both terms were read. What a leader lacks is the end of a
        term: one message of it that is there proves all before it, and each behind that has to be there, or to be
        replaced by one that was read.
        """
        later: set[str] = set()
        for each in known:
            _, time, subject, _ = each
            if time <= since_ns + SKEW_NS:
                same = await self._has(each)
                if same is False or (same is None and subject not in later):
                    return False
                if same and 0 < time < since_ns - SKEW_NS:
                    return True
            later.add(subject)
        return len(known) < LENGTH

    async def _has(self, known: _Known) -> bool | None:
        """Whether the leader has this message; None: it has none of this sequence."""
        sequence, time, subject, written = known
        raw = await jetstream.message_at(self._link, self._stream, sequence)
        if raw is None:
            return None
        if time:
            return jetstream.nanoseconds(raw.time) == time
        return (raw.subject, hash(jetstream.payload(raw))) == (subject, written)

    def _leader_of(self, info: jetstream.StreamInfo) -> str:
        """Who leads, and since when. A server without a cluster has no such term: there the process counts."""
        return info.term or self._link.server_id
