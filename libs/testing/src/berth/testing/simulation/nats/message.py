"""Messages inside the simulated server, and the readings of their headers that decide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from berth.testing.simulation.nats.problems import TTL_INVALID, Refusal

if TYPE_CHECKING:
    from berth.testing.simulation.nats.client import SimClient

NANO = 1_000_000_000
RECORD_BYTES = 30
"""What a message takes in a file beside its subject, headers and payload."""

_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Publish:
    """A message on its way in. `raw` are the headers as on the wire, empty for none."""

    __slots__ = ("client", "data", "headers", "raw", "reply", "subject")

    def __init__(
        self,
        subject: str,
        data: bytes,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
        raw: bytes = b"",
        client: SimClient | None = None,
    ) -> None:
        self.subject = subject
        self.data = data
        self.reply = reply
        self.headers = headers or {}
        self.raw = raw
        self.client = client


class Stored:
    """A message in a stream. `expires` is Unix time in nanoseconds, 0 for never."""

    __slots__ = ("data", "expires", "message_id", "raw", "sequence", "size", "subject", "time")

    def __init__(
        self, sequence: int, subject: str, raw: bytes, data: bytes, time: int, expires: int, message_id: str
    ) -> None:
        self.sequence = sequence
        self.subject = subject
        self.raw = raw
        self.data = data
        self.time = time
        self.expires = expires
        self.message_id = message_id
        self.size = RECORD_BYTES + len(subject) + len(data) + (len(raw) + 4 if raw else 0)


def ttl_seconds(text: str) -> float:
    """`Nats-TTL`: seconds, a Go duration, or "never" (0). Raises Refusal."""
    if text == "never":
        return 0.0
    if text.isdigit():
        seconds = float(text)
    else:
        parts = _PART.findall(text)
        if "".join(number + unit for number, unit in parts) != text:
            raise Refusal(TTL_INVALID)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds < 1:
        raise Refusal(TTL_INVALID)
    return seconds


def number_of(text: str | None) -> int | None:
    """A sequence in a header; what is none counts as one that is never met."""
    if text is None:
        return None
    return int(text) if text.isdigit() else -1
