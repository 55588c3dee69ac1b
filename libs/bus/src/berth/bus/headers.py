"""Names of the headers in use, and the few readings of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_OF_STREAM = "Nats-Expected-Last-Sequence"
MESSAGE_ID = "Nats-Msg-Id"
TTL = "Nats-TTL"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
OPERATION = "KV-Operation"
MARKER = "Nats-Marker-Reason"
TRACEPARENT = "traceparent"
ERA = "Berth-Era"
"""Of what the owner of a bucket writes: another one after each start, and after each loss that it has noticed."""
STATUS = "Status"
DESCRIPTION = "Description"
STALLED = "Nats-Consumer-Stalled"
LAST_CONSUMER = "Nats-Last-Consumer"
LAST_STREAM = "Nats-Last-Stream"

_ERA = f"\r\n{ERA}: ".encode()
NO_RESPONDERS = "503"
CONTROL = "100"


def is_deletion(headers: Mapping[str, str]) -> bool:
    """A DEL or PURGE marker, or one that the server wrote when a key expired."""
    return headers.get(OPERATION) in ("DEL", "PURGE") or MARKER in headers


def has_status(raw: bytes) -> bool:
    """Whether headers on the wire are those of a control message."""
    return raw.startswith(b"NATS/1.0 ")


def marks_deletion(raw: bytes) -> bool:
    """`is_deletion` of headers on the wire. Our own markers are recognised by their bytes; others are parsed first."""
    if b"\r\nKV-Operation: DEL\r\n" in raw:
        return True
    return (b"KV-Operation" in raw or b"Nats-Marker-Reason" in raw) and is_deletion(parse(raw))


def trace_of(raw: bytes) -> str | None:
    """The trace in headers on the wire."""
    return parse(raw).get(TRACEPARENT) if b"traceparent" in raw else None


def era_of(raw: bytes) -> bytes:
    """The owner's era in headers on the wire, empty without one."""
    _, found, rest = raw.partition(_ERA)
    return rest.partition(b"\r\n")[0] if found else b""


def parse(raw: bytes) -> dict[str, str]:
    """Headers from their form on the wire (also as STREAM.MSG.GET returns them).

    The status of a control message, on the first line, becomes `Status` and `Description`.
    """
    first, *lines = raw.split(b"\r\n")
    headers = {}
    _, _, status = first.partition(b" ")
    if status:
        code, _, description = status.strip().decode("utf-8", "replace").partition(" ")
        headers[STATUS] = code
        if description:
            headers[DESCRIPTION] = description
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.decode("ascii", "replace").strip()] = value.strip().decode("utf-8", "replace")
    return headers


def cloud_event(*, message_id: str, kind: str, source: str, now: float, traceparent: str | None) -> dict[str, str]:
    """Headers of an event or a command: CloudEvents attributes, the identity for de-duplication, the trace.

    `now` is Unix time in seconds.
    """
    headers = {
        MESSAGE_ID: _value(message_id),
        "ce-specversion": "1.0",
        "ce-id": _value(message_id),
        "ce-type": _value(kind),
        "ce-source": _value(source),
        "ce-time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if traceparent:
        headers[TRACEPARENT] = traceparent
    return headers


def _value(text: str) -> str:
    """Header values are printable ASCII; anything else is percent-encoded, as CloudEvents asks for."""
    return text if text.isascii() and text.isprintable() else quote(text, safe=" !\"#$&'()*+,/:;<=>?@[]^`{|}~")
