"""nats-py's client with a short way in and a short way out.

nats-py hands every message through a queue and a task of its subscription, and writes every publish through several
awaits. Followers and windows move tens of messages per placed pod, and there that is most of the cost. A `Taker` gets
its messages straight from the parser, in order, in the turn of the event loop that read them; `post` puts a message
into the client's own buffer and lets its flusher write all of the turn at once. Whatever is not a whole message (INFO,
PING, errors, the first half of a long one) goes through nats-py's own parser.

A taker must be quick and must not raise; what it queues is bounded by the sender (flow control, windows).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from nats.aio.client import DEFAULT_BUFFER_SIZE, Client
from nats.aio.subscription import Subscription
from nats.errors import BadHeaderError, BadSubjectError, ConnectionClosedError, MaxPayloadError
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

from berth.bus import headers as h
from berth.bus.logs import FieldLogger
from berth.bus.settings import BusSettings

log = FieldLogger(__name__)

READ_PAUSE_MAX_S = 0.1
"""The longest rest between two reads, unless the pause for a single message is longer."""

_ILLEGAL_HEADER = re.compile(r"[\r\n]")
_NO_HEADERS: Mapping[str, str] = {}


class Delivery:
    """A message as it came. The headers are read when somebody asks for them."""

    def __init__(self, subject: str, reply: str, data: bytes, raw_headers: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.data = data
        self.raw_headers = raw_headers

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """By name; the status of a control message is there as `Status` and `Description`."""
        return h.parse(self.raw_headers) if self.raw_headers else _NO_HEADERS


Taker = Callable[[Delivery], None]


class BusClient(Protocol):
    """A client of one connection, as far as this package needs one; `DirectClient` is it on a socket.

    What goes wrong is raised as nats-py does (`nats.errors`), or as OSError or TimeoutError. `connect` is awaited once;
    after it, `is_connected` stays true until the connection is lost for good.
    """

    takers: dict[int, Taker]

    @property
    def is_connected(self) -> bool:
        """There is a connection."""
        ...

    @property
    def is_closed(self) -> bool:
        """It was closed, by us or by a loss."""
        ...

    @property
    def last_error(self) -> Exception | None:
        """Why there is no connection."""
        ...

    @property
    def max_payload(self) -> int:
        """Largest message in bytes, headers included."""
        ...

    @property
    def connected_server_version(self) -> Any:
        """`major`, `minor` and `patch` of the server."""
        ...

    @property
    def server_id(self) -> str:
        """Identity of the server process; empty before the first connection."""
        ...

    async def connect(self, **options: Any) -> None:
        """Connect with options of nats-py."""
        ...

    async def subscribe(self, subject: str, *, queue: str = "", cb: Any = None) -> Any:
        """A subscription whose messages go to the coroutine function `cb`, one after the other."""
        ...

    async def take(self, subject: str, taker: Taker, *, queue: str = "") -> Any:
        """Subscribe; every message goes to the taker at once. End it with `release`."""
        ...

    def retake(self, subscription: Any, taker: Taker) -> None:
        """Another taker for a subscription made by `take`, from the next message on."""
        ...

    async def release(self, subscription: Any) -> None:
        """End a subscription made by `take`."""
        ...

    def post(self, subject: str, payload: bytes, reply: str, headers: Mapping[str, str] | None) -> bool:
        """Publish without waiting; False: the buffer is full, `publish` waits until it is not."""
        ...

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish, waiting for space in the buffer."""
        ...

    async def flush(self, timeout: int = 10) -> None:  # noqa: ASYNC109 - as nats-py has it
        """Return once the server has taken everything sent so far."""
        ...

    async def close(self) -> None:
        """Disconnect for good."""
        ...


ClientFactory = Callable[[BusSettings], BusClient]


class DirectClient(Client):  # type: ignore[misc]  # nats-py carries no types
    """A client of one connection. `connect` it without `allow_reconnect`."""

    def __init__(self, *, read_pause_s: float = 0.0) -> None:
        super().__init__()
        self.read_pause_s = read_pause_s
        self._ps = _DirectParser(self)
        self.takers: dict[int, Taker] = {}

    async def take(self, subject: str, taker: Taker, *, queue: str = "") -> Subscription:
        """Subscribe; every message goes to the taker at once. End it with `release`."""
        subscription = await self.subscribe(subject, queue=queue)
        self.takers[subscription._id] = taker
        return subscription

    def retake(self, subscription: Subscription, taker: Taker) -> None:
        """Another taker for a subscription made by `take`, from the next message on."""
        self.takers[subscription._id] = taker

    @property
    def server_id(self) -> str:
        """Identity of the server process; empty before the first connection."""
        return str((self._server_info or {}).get("server_id", ""))

    async def release(self, subscription: Subscription) -> None:
        """End a subscription made by `take`."""
        self.takers.pop(subscription._id, None)
        await subscription.unsubscribe()

    def read_rest_s(self, messages: int) -> float:
        """The pause after a read of so many messages: who reads one is soon there for the next, and a stream of them
        wakes up its reader less often the thicker it is."""
        return min(self.read_pause_s * max(messages, 1), max(self.read_pause_s, READ_PAUSE_MAX_S))

    async def rest(self, messages: int) -> None:
        """Leave the socket alone for the pause after a read of so many messages; what comes waits in the kernel."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is None or not self.is_connected or writer.transport.is_closing():
            return
        writer.transport.pause_reading()
        await asyncio.sleep(self.read_rest_s(messages))
        if not writer.transport.is_closing():
            writer.transport.resume_reading()

    def hand_on(self, taker: Taker, delivery: Delivery) -> None:
        """Give a message to its taker."""
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(delivery.data)
        try:
            taker(delivery)
        except Exception:
            log.exception("a taker failed")

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        """What nats-py's parser has read: a message behind a PONG, say, in the same read."""
        taker = self.takers.get(sid)
        if taker is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            self.hand_on(taker, Delivery(_text(subject), _text(reply), data, headers or b""))

    def post(self, subject: str, payload: bytes, reply: str, headers: Mapping[str, str] | None) -> bool:
        """Publish without waiting; False: the buffer is full, `publish` waits until it is not.

        Raises what `publish` raises.
        """
        if self._pending_data_size + len(payload) > self._max_pending_size:
            return False
        if not self.is_connected:
            raise ConnectionClosedError
        check_publish(subject, payload, reply, self.max_payload)
        command = _hpub(subject, reply, payload, headers) if headers else _pub(subject, reply, payload)
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        self._pending.append(command)
        self._pending_data_size += len(command)
        if self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())
        return True


def direct_client(settings: BusSettings) -> DirectClient:
    """The factory of production."""
    return DirectClient(read_pause_s=settings.read_pause_s)


def _pub(subject: str, reply: str, payload: bytes) -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(payload), payload)


def check_publish(subject: str, payload: bytes, reply: str, max_payload: int) -> None:
    """Raises MaxPayloadError or BadSubjectError for what must not be sent."""
    if len(payload) > max_payload:
        raise MaxPayloadError
    if not _is_subject(subject) or (reply and not _is_subject(reply)):
        raise BadSubjectError


def _is_subject(text: str) -> bool:
    """Whether it is one word on a line of the protocol: not empty, no white space, no NUL."""
    return text.split() == [text] and "\0" not in text


def wire_headers(headers: Mapping[str, str]) -> bytes:
    """Headers in their form on the wire. Raises BadHeaderError for a line break in one."""
    lines = "\r\n".join([f"{name}: {value}" for name, value in headers.items()])
    if lines.count("\n") != len(headers) - 1 or lines.count("\r") != len(headers) - 1:
        raise BadHeaderError(next(name for name in headers if _ILLEGAL_HEADER.search(name + headers[name])))
    return f"NATS/1.0\r\n{lines}\r\n\r\n".encode()


def _hpub(subject: str, reply: str, payload: bytes, headers: Mapping[str, str]) -> bytes:
    head = wire_headers(headers)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
        subject.encode(),
        reply.encode(),
        len(head),
        len(head) + len(payload),
        head,
        payload,
    )


def _text(subject: bytes) -> str:
    """A subject as text. The server takes any bytes in one, and what raises here ends the reading."""
    return subject.decode("utf-8", "replace")


class _DirectParser(Parser):  # type: ignore[misc]  # nats-py carries no types
    """Hands whole messages of takers on by itself, and leaves everything else to nats-py."""

    def __init__(self, client: DirectClient) -> None:
        super().__init__(client)
        self._client = client

    async def parse(self, data: bytes = b"") -> None:
        """See `Parser.parse`."""
        before = self._client.stats["in_msgs"]
        await self._parse(data)
        # A full read has more behind it: who reads a bucket from its start, or has fallen behind, does not rest.
        if self._client.read_pause_s and len(data) < DEFAULT_BUFFER_SIZE:
            await self._client.rest(self._client.stats["in_msgs"] - before)

    async def _parse(self, data: bytes) -> None:
        if self.state == AWAITING_CONTROL_LINE:
            if self.buf:
                self.buf += data
                data = bytes(self.buf)
                self.buf.clear()
            data = data[self._take(data) :]
            if not data:
                return
            if data.startswith((b"MSG ", b"HMSG ")) and self._is_ours(data):
                self.buf += data  # the rest of it is on its way
                return
        await super().parse(data)

    def _take(self, data: bytes) -> int:
        """Hand on the messages at the start; returns how many bytes they are."""
        client, takers = self._client, self._client.takers
        at = 0
        while (end := data.find(b"\r\n", at)) > 0:
            line = data[at:end].split(b" ")
            try:
                if line[0] == b"HMSG":
                    head_bytes, whole_bytes = int(line[-2]), int(line[-1])
                    reply = line[3] if len(line) == 6 else b""
                elif line[0] == b"MSG":
                    head_bytes, whole_bytes = 0, int(line[-1])
                    reply = line[3] if len(line) == 5 else b""
                else:
                    return at
                taker = takers.get(int(line[2]))
            except (ValueError, IndexError):
                return at
            start = end + 2
            stop = start + whole_bytes
            if taker is None or len(data) < stop + 2:
                return at
            body = start + head_bytes
            client.hand_on(taker, Delivery(_text(line[1]), _text(reply), data[body:stop], data[start:body]))
            at = stop + 2
            if client.is_closed:
                return len(data)
        return at

    def _is_ours(self, data: bytes) -> bool:
        """Whether the message that begins here is for a taker; false when that is not known yet."""
        line = data[: max(data.find(b"\r\n"), 0)].split(b" ")
        return len(line) > 3 and line[2].isdigit() and int(line[2]) in self._client.takers
