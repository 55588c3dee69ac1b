"""Requests of the JetStream API as JSON: the client library lacks several fields that the topology needs."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from berth.bus import headers as h
from berth.bus.errors import ApiError
from berth.bus.link import Link
from berth.bus.port import Stored

STREAM_NOT_FOUND = 10059
MESSAGE_NOT_FOUND = 10037
WRONG_SEQUENCE = frozenset({10071, 10164})
NANO = 1_000_000_000
T = TypeVar("T")
TIMEOUT_S = 5.0


class StreamState(msgspec.Struct, frozen=True):
    """What is in a stream."""

    messages: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0


class Leader(NamedTuple):
    """Who leads a stream: a server by its name, and its term, during which a stream loses nothing.

    A term begins with each election, or, where no others vote, with the server's process. Empty: the server does not
    say. `since`: when it was elected, by the clock that stamps messages from then on; 0: it was not.
    """

    name: str
    term: str
    since: int = 0

    def is_still(self, known: Leader) -> bool:
        """It has led ever since."""
        return bool(self.term) and self == known


NOBODY = Leader("", "")


class Cluster(msgspec.Struct, frozen=True):
    """Which servers hold a stream. `name` is empty for a server of its own."""

    name: str = ""
    leader: str = ""
    leader_since: str = ""


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream: its settings, when it was made, what is in it, who leads it."""

    config: dict[str, Any]
    created: str
    state: StreamState = StreamState()
    cluster: Cluster = Cluster()

    def led_by(self, server_id: str) -> Leader:
        """The leader, as seen by a client of this server process."""
        cluster = self.cluster
        if cluster.leader_since:
            return Leader(cluster.leader, cluster.leader_since, nanoseconds(cluster.leader_since))
        return Leader(cluster.leader, "" if cluster.name else server_id)


class RawMessage(msgspec.Struct, frozen=True):
    """A stored message as STREAM.MSG.GET returns it."""

    subject: str
    seq: int
    time: str = ""
    hdrs: str = ""
    data: str = ""


class PubAck(msgspec.Struct, frozen=True):
    """The answer to a publish."""

    class Problem(msgspec.Struct, frozen=True):
        """Why it was not stored."""

        code: int = 0
        err_code: int = 0
        description: str = ""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: Problem | None = None


_ACK = msgspec.json.Decoder(PubAck)


def decode_ack(data: bytes) -> PubAck:
    """The answer to a publish; what is not one becomes an error of code 0."""
    try:
        ack = _ACK.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return PubAck(error=PubAck.Problem(description=f"not an acknowledgement: {error}"))
    if ack.error is None and not ack.stream:
        return PubAck(error=PubAck.Problem(description="not an acknowledgement: it names no stream"))
    return ack


async def call(link: Link, name: str, body: object = None, *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """A request of the API, by its name. Raises ApiError for a refusal, and what `Link.request` raises."""
    payload = b"" if body is None else msgspec.json.encode(body)
    msg = await link.request(f"{link.api}.{name}", payload, timeout_s=timeout_s)
    try:
        answer = msgspec.json.decode(msg.data)
        problem = answer.get("error")
        refused = ApiError(int(problem.get("err_code", 0)), str(problem.get("description", ""))) if problem else None
    except (msgspec.DecodeError, AttributeError, TypeError, ValueError) as error:
        raise ApiError(0, f"unreadable answer to {name}") from error
    if refused is not None:
        raise refused
    return dict(answer)


def read(answer: object, kind: type[T], name: str) -> T:
    """An answer, or a part of one, as what it is to be. Raises ApiError where it is something else."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ApiError(0, f"unreadable answer to {name}: {error}") from error


async def stream_info(link: Link, stream: str) -> StreamInfo:
    """A stream as its leader knows it."""
    return read(await call(link, name := f"STREAM.INFO.{stream}"), StreamInfo, name)


async def subjects(link: Link, stream: str, pattern: str) -> list[str]:
    """Subjects that fit a pattern and have a message, as the stream's leader knows them. Raises what `call` raises."""
    found: list[str] = []
    while True:
        answer = await call(link, f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
        page = answer.get("state", {}).get("subjects") or {}
        found += page
        if not page or len(found) >= int(answer.get("total", 0)):
            return found


async def newest(link: Link, bucket: str, key: str) -> Stored | None:
    """What is stored of a key, from the leader; None: nothing."""
    raw = await newest_message(link, bucket, key)
    return None if raw is None else stored(raw)


async def newest_message(link: Link, bucket: str, key: str) -> RawMessage | None:
    """Newest message of a key, from the leader; None: there is none."""
    subject = f"$KV.{bucket}.{key}"
    raw = await find(link, f"KV_{bucket}", {"last_by_subj": subject})
    if raw is None:
        return None
    if raw.subject != subject:
        raise ApiError(0, f"an answer about {raw.subject} to a question about {subject}")
    return raw


async def message_at(link: Link, stream: str, sequence: int) -> RawMessage | None:
    """The message with this sequence; None: it is not there any more."""
    return await find(link, stream, {"seq": sequence})


def stored(raw: RawMessage) -> Stored:
    """A message of a bucket, as what is stored of its key."""
    return Stored(raw.seq, payload(raw), h.is_deletion(headers(raw)), nanoseconds(raw.time) if raw.time else 0)


def headers(raw: RawMessage) -> dict[str, str]:
    """The headers that the message was stored with."""
    return h.parse(base64.b64decode(raw.hdrs))


def payload(raw: RawMessage) -> bytes:
    """What the message holds."""
    return base64.b64decode(raw.data)


async def find(link: Link, stream: str, query: dict[str, object]) -> RawMessage | None:
    """A message by `seq`, `last_by_subj`, or `next_by_subj` from `seq` on, as the stream's leader knows it."""
    name = f"STREAM.MSG.GET.{stream}"
    try:
        answer = await call(link, name, query)
    except ApiError as error:
        if error.code == MESSAGE_NOT_FOUND:
            return None
        raise
    return read(answer.get("message"), RawMessage, name)


def nanoseconds(text: str) -> int:
    """Unix time in nanoseconds of RFC 3339 with up to nine decimals."""
    base, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{base}+00:00").timestamp())
    return seconds * NANO + int(fraction.ljust(9, "0")[:9] or 0)
