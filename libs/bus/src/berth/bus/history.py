"""What is known of a stream that somebody reads: when it was made, who led it, and its last messages.

A stream may lose its tail: its server comes back on an older store, or another server with an older one comes to lead
it while every connection stands. Its sequences are used again then, so they prove nothing. A message that is stored as
it was read proves all before it, since histories part once; behind it, what was read has to have been replaced.

A consumer that was not made anew may have gone over from the one history to the other, behind the sequences that were
used again. So under another leader the newest message of before its time has to be there, too.

The server that somebody is connected to says nothing of this: in a cluster the stream's leader does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from berth.bus import headers as h
from berth.bus import jetstream
from berth.bus.jetstream import Leader, RawMessage, StreamInfo
from berth.bus.link import Link

DEPTH = 2048
"""More than comes between two looks at the leader."""
STEPS_BACK = 16
"""How many messages that have been replaced are passed over to find one that is there."""

Known: TypeAlias = tuple[int, int, str, int]
"""A message that the stream held: sequence, when it was stored (0: acknowledged to this process, not seen here yet),
subject, and the hash of what was acknowledged with the era of its owner: another owner, who writes a bucket again that
lost its tail, may put the same bytes at the same place. Plain, since one is made for every delivery."""


class History:
    """What a follower knows of its stream. `filters`: the subjects that it reads."""

    def __init__(self, link: Link, stream: str, filters: Sequence[str]) -> None:
        self._link = link
        self._stream = stream
        self._filters = tuple(filters)
        self.created = ""
        self.leader = jetstream.NOBODY
        self.recent: deque[Known] = deque(maxlen=DEPTH)
        """The last messages known to be stored, newest last."""

    def take(self, info: StreamInfo, leader: Leader) -> None:
        """What is known is of this stream, under this leader."""
        self.created, self.leader = info.created, leader

    def forget(self) -> None:
        """Nothing is known of any stream."""
        self.created = ""
        self.recent.clear()

    def witness(self, sequence: int, subject: str, data: bytes, *, era: str = "", time_ns: int = 0) -> None:
        """A message was acknowledged to this process, in this era; or was read by it: stored at that time."""
        if not self.recent or sequence > self.recent[-1][0]:
            self.recent.append((sequence, time_ns, subject, hash((data, era))))

    def last(self) -> int:
        """The last sequence that the stream is known to have had."""
        return self.recent[-1][0] if self.recent else 0

    def difference(self, info: StreamInfo, last: int) -> str:
        """Why this cannot be the stream that had `last`, or has lost its tail since; empty: it can."""
        if info.created != self.created:
            return "another stream"
        return "the stream lost its tail" if info.state.last_seq < last else ""

    async def is_kept(self, read: int, leader: Leader) -> bool | None:
        """Whether the stream has what was read through `read`, or newer messages in its place. None: not known.

        For that all that was read last has to be gone: replaced, or expired. Then a leader that has led all the while
        is to be trusted, and no other.
        """
        known = list(self.recent)  # what is on its way may add to it meanwhile
        is_kept = await self._is_kept(known, read)
        if is_kept is False or leader == self.leader or not leader.since:
            return is_kept
        before = [each for each in known if 0 < each[1] < leader.since]
        if not before:
            return None if len(known) == DEPTH else is_kept
        was_kept = await self._is_kept(before, before[-1][0])
        return is_kept if was_kept else was_kept

    async def _is_kept(self, known: list[Known], read: int) -> bool | None:
        for at in _newest_of_keys(known):
            raw = await jetstream.message_at(self._link, self._stream, known[at][0])
            if raw is not None:
                return await self._is_replaced(known[at + 1 :], known[at][0], read) if _is(raw, known[at]) else False
        return None if known else True

    async def _is_replaced(self, newer: list[Known], proven: int, read: int) -> bool | None:
        """Of the messages behind the one that is proven none is there: each has to have been replaced.

        What is stored in their place and not known here will not be read any more, so there must be no such message.
        """
        if not newer:
            return True
        by_sequence = {each[0]: each for each in newer}
        there: set[int] = set()
        for pattern in self._filters:
            at = proven
            while (raw := await self._next(pattern, at)) is not None and raw.seq <= read:
                mine = by_sequence.get(raw.seq)
                if mine is None or not _is(raw, mine):
                    return False
                there.add(raw.seq)
                at = raw.seq
        gone = {subject: sequence for sequence, _, subject, _ in newer if sequence not in there}
        for subject, sequence in gone.items():
            raw = await jetstream.find(self._link, self._stream, {"last_by_subj": subject})
            if raw is None:
                return None  # a deletion marker that has expired, or it was lost
            if raw.seq <= sequence:
                return False
        return True

    async def after(self, sequence: int) -> int:
        """The sequence of the first stored message behind this one that is to be read; 0: there is none."""
        found = [raw.seq for pattern in self._filters if (raw := await self._next(pattern, sequence)) is not None]
        return min(found, default=0)

    async def _next(self, pattern: str, sequence: int) -> RawMessage | None:
        return await jetstream.find(self._link, self._stream, {"seq": sequence + 1, "next_by_subj": pattern})


def _newest_of_keys(known: Sequence[Known]) -> Iterator[int]:
    """Where those are that were not replaced as far as is known, newest first."""
    seen: set[str] = set()
    for at in range(len(known) - 1, -1, -1):
        subject = known[at][2]
        if subject not in seen:
            seen.add(subject)
            yield at
            if len(seen) == STEPS_BACK:
                return


def _is(raw: RawMessage, known: Known) -> bool:
    """Whether a stored message is the one that is known."""
    _, time, subject, written = known
    if time:
        return jetstream.nanoseconds(raw.time) == time
    return (raw.subject, hash((jetstream.payload(raw), jetstream.headers(raw).get(h.ERA, "")))) == (subject, written)
