"""Events that the stream still keeps, read one by one from its leader: no consumer is made, nothing is acknowledged."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

from berth.bus import headers as h
from berth.bus import jetstream
from berth.bus.link import Link
from berth.bus.port import Message
from berth.contracts import buckets


async def last(link: Link, subject: str) -> Message | None:
    """The newest kept event of a subject or pattern; None: there is none. Raises BusError."""
    raw = await jetstream.find(link, buckets.EVENTS, {"last_by_subj": subject})
    return _message(raw) if raw else None


async def following(link: Link, pattern: str, sequence: int = 0) -> AsyncIterator[Message]:
    """The kept events of a pattern behind a sequence, in order. Raises BusError."""
    while True:
        query: dict[str, object] = {"seq": sequence + 1, "next_by_subj": pattern}
        raw = await jetstream.find(link, buckets.EVENTS, query)
        if raw is None:
            return
        yield _message(raw)
        sequence = raw.seq


def _message(raw: jetstream.RawMessage) -> Message:
    headers = h.parse(base64.b64decode(raw.hdrs)) or {}
    return Message(subject=raw.subject, data=jetstream.payload(raw), headers=headers, sequence=raw.seq)
