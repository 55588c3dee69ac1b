"""What a service sees of the bus: values and small protocols, so that a simulated bus can stand in for the real one.

`berth.bus.Bus` is the implementation on NATS; annotate with `BusPort` what must also run on a simulated bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, KeysView, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class Entry(NamedTuple):
    """One message of a bucket, as a follower sees it.

    `deleted`: a DEL, PURGE or expiry marker; `value` then is the marker's payload, perhaps empty. `pending`: how many
    messages are behind this one. `gap`: the message before it in the stream was not seen by this follower, because a
    newer one for the same key replaced it (or it expired, or the follower's `keys` leave it out). `stored_s` is when
    the server stored it, unix seconds of the server's clock; 0: that is not known.
    """

    key: str
    value: bytes
    deleted: bool
    sequence: int
    pending: int
    gap: bool
    traceparent: str | None
    stored_s: float = 0.0


class Sink(Protocol):
    """Where a follower puts what it reads. Synchronous, called in order from the follower's task; must be fast."""

    def reset(self) -> None:
        """Another stream, or one that lost its tail: empty the view; everything is read again from the start."""
        ...

    def apply(self, entry: Entry) -> None:
        """The next message."""
        ...

    def end(self, sequence: int) -> None:
        """The end of the bucket is reached; `sequence` is the last one applied (0: none).

        Comes again at every end, and every second while nothing new comes.
        """
        ...


class FollowerPort(Protocol):
    """A reader of one bucket, from its start and for ever."""

    ready: asyncio.Event
    """Set once the end was reached for the first time."""
    sequence: int
    """Stream sequence of the last entry applied; 0 before the first and after a reset."""

    @property
    def created(self) -> str:
        """When the stream that is read was made, by its server; empty while that is not known."""
        ...

    async def run(self) -> None:
        """Follow until cancelled."""
        ...

    async def has_all(self) -> bool:
        """Whether it has read all that the stream's leader holds by now, and nothing else. Raises BusError.

        `ready` speaks for the server that the reader is at: it may be behind the others, or have lost its way to them.
        """
        ...


class OwnedPort(Protocol):
    """The sole writer's side of a bucket: every write expects the last sequence of its key."""

    async def ready(self) -> None:
        """Return once the bucket was read to its end."""
        ...

    def put(self, key: str, value: bytes, *, traceparent: str | None = None) -> bool:
        """Queue a write. False: these bytes are there (or on their way) already, nothing is sent."""
        ...

    def delete(self, key: str, value: bytes = b"") -> bool:
        """Queue a deletion marker with a payload. False: there is nothing to delete."""
        ...

    def keys(self) -> KeysView[str]:
        """Keys that are there, counting writes on their way."""
        ...

    def sequence(self, key: str) -> int:
        """Last sequence known of a key; 0: none."""
        ...

    async def wait_while_full(self) -> None:
        """Back-pressure: return once fewer writes than the window holds are waiting."""
        ...

    async def drain(self) -> None:
        """Return once every write so far has its outcome."""
        ...


class Write(NamedTuple):
    """One message of a batch. `value` None: a deletion marker. `expected`: the key's last sequence, 0: no message."""

    key: str
    value: bytes | None
    expected: int


class Committed(NamedTuple):
    """The whole batch is stored; `sequence` is that of its last message, the others lie right before it."""

    sequence: int


NO_SPACE = 10077
"""The server's error code for a stream at its limits."""


class Refused(NamedTuple):
    """Nothing of the batch is stored; `code` is the server's error code (10071, 10164: another sequence)."""

    code: int
    reason: str

    @property
    def is_full(self) -> bool:
        """The bucket has no space for it: sequences are as they were expected to be, as far as anybody looked."""
        return self.code == NO_SPACE


class Unknown(NamedTuple):
    """The batch is stored whole or not at all, and nobody said which."""

    reason: str


class Stored(NamedTuple):
    """The newest message of a key, as its leader knows it."""

    sequence: int
    value: bytes
    deleted: bool
    time_ns: int = 0
    """When it was stored, by the server's clock; 0: that is not known."""


class LedgerPort(Protocol):
    """Atomic batches on the ledger's bucket, and reads that its leader answers."""

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Committed | Refused | Unknown:
        """All of the writes or none."""
        ...

    async def read(self, key: str) -> Stored | None:
        """Newest message of a key; None: there is none. Raises BusError when the bus cannot answer."""
        ...

    async def keys(self, pattern: str) -> list[str]:
        """Keys that fit a pattern and have a message, be it a deletion marker; in order. Raises BusError."""
        ...


class PublisherPort(Protocol):
    """Events or commands on their way into a stream."""

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        id: str,  # noqa: A002 - the name of the attribute on the wire
        type: str,  # noqa: A002
        traceparent: str | None = None,
    ) -> None:
        """Take a message; waits for a place in the queue, not for the acknowledgement."""
        ...

    def offer(
        self,
        subject: str,
        payload: bytes,
        *,
        id: str,  # noqa: A002
        type: str,  # noqa: A002
        traceparent: str | None = None,
    ) -> bool:
        """Take a message if there is a place; False: dropped and counted."""
        ...

    async def drain(self) -> None:
        """Return once every message so far has its outcome."""
        ...


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was not read from a bucket. `deliveries` counts from 1; `sequence` is 0 off a stream."""

    subject: str
    data: bytes
    headers: Mapping[str, str] = {}
    sequence: int = 0
    deliveries: int = 1

    @property
    def traceparent(self) -> str | None:
        """W3C trace context of the sender."""
        return self.headers.get("traceparent")

    @property
    def id(self) -> str:
        """Identity given by the sender, empty without one."""
        return self.headers.get("Nats-Msg-Id") or self.headers.get("ce-id", "")

    @property
    def type(self) -> str:
        """Type of the message (CloudEvents), empty without one."""
        return self.headers.get("ce-type", "")


Handler = Callable[[Message], Awaitable[None]]
"""Handles one message. Returning acknowledges it, `InvalidMessage` ends it as a dead letter, another exception tries
again.

`RetryLater` says that the message is not at fault: it is tried again, and the log has a line instead of a traceback.
"""
Endpoint = Callable[[bytes], Awaitable[bytes | None]]
"""Answers one question; None: others are meant, and nothing is said."""


class ConsumerPort(Protocol):
    """A durable reader of a work queue."""

    async def run(self) -> None:
        """Consume until cancelled."""
        ...


class LeasePort(Protocol):
    """Which of several replicas should work now."""

    @property
    def active(self) -> bool:
        """This holder holds the lease, as far as it knows."""
        ...

    async def run(self) -> None:
        """Try to get and keep the lease until cancelled; gives it back then."""
        ...


class SubscriptionPort(Protocol):
    """A live subscription; it survives reconnects, what is published meanwhile is missed."""

    async def unsubscribe(self) -> None:
        """End it."""
        ...


class Login(NamedTuple):
    """Who wants in, as the server reports it. All of it but `host` is what the client says of itself."""

    user: str
    password: str
    name: str
    host: str


class Access(NamedTuple):
    """What one connection gets: an account, a name for the server's log, subjects, and its end as Unix time."""

    account: str
    name: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    until: int


class LoginRefused(Exception):  # noqa: N818
    """This login is refused; the text is for the server's log."""


Authenticator = Callable[[Login], Awaitable[Access]]
"""Decides on a login. Raises LoginRefused."""


class BusPort(Protocol):
    """Everything a service does on the bus."""

    @property
    def connected(self) -> asyncio.Event:
        """Set while there is a connection."""
        ...

    async def close(self) -> None:
        """End every task and the connection."""
        ...

    async def ensure(self) -> None:
        """Make streams and buckets what the topology says."""
        ...

    def follow(self, bucket: str, sink: Sink, *, keys: str | Sequence[str] = ">") -> FollowerPort:
        """A follower of a bucket; `keys` may narrow it by subject patterns."""
        ...

    def follow_by_asking(self, bucket: str, sink: Sink, *, pattern: str) -> FollowerPort:
        """A follower of the few keys of a subject pattern that needs no other right than to read messages."""
        ...

    def owned(
        self,
        bucket: str,
        *,
        on_conflict: Callable[[str], None] | None = None,
        on_reset: Callable[[], None] | None = None,
        sink: Sink | None = None,
        keys: str = ">",
    ) -> OwnedPort:
        """The sole writer's side of a bucket, or of those of its keys that match the pattern `keys`."""
        ...

    def ledger(self) -> LedgerPort:
        """The ledger."""
        ...

    def events(self) -> PublisherPort:
        """Events out."""
        ...

    async def last_event(self, subject: str) -> Message | None:
        """The newest event of a subject that is still kept; None: there is none. Raises BusError."""
        ...

    def commands(self) -> PublisherPort:
        """Commands out."""
        ...

    def consume(
        self,
        durable: str,
        handler: Handler,
        *,
        subjects: str,
        stream: str = ...,
        concurrency: int = ...,
        ack_wait_s: float = ...,
        backoff_s: Sequence[float] = ...,
        max_deliver: int = ...,
    ) -> ConsumerPort:
        """A durable consumer with explicit acknowledgements."""
        ...

    async def serve(self, service: str, version: str, endpoints: Mapping[str, Endpoint]) -> None:
        """Answer questions `berth.v1.svc.<service>.<verb>`."""
        ...

    async def authenticate(self, authenticator: Authenticator, seed: bytes) -> None:
        """Answer the logins that the server leaves to this user. Raises ValueError for a seed of no account."""
        ...

    async def ask(self, subject: str, payload: bytes, *, timeout_s: float = 2.0) -> bytes:
        """One answer from one instance."""
        ...

    async def ask_all(self, subject: str, payload: bytes, *, wait_s: float = 0.5) -> list[bytes]:
        """The answers of every instance that answers in time."""
        ...

    def lease(
        self,
        name: str,
        holder: str,
        *,
        ttl_s: int = 6,
        on_change: Callable[[bool], None] | None = None,
        note: str = "",
    ) -> LeasePort:
        """A lease on the bus; `note` is shown to whoever follows the leases."""
        ...

    async def subscribe(self, subject: str, callback: Handler) -> SubscriptionPort:
        """Messages as they are published, without any storage."""
        ...
