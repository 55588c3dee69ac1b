"""A client of the simulated server, with the surface that berth.bus uses of nats-py's.

What it sends goes up in order and arrives a little later; what is sent to it comes by subscription. It belongs to an
owner, a simulated process, whose end severs it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from berth.bus.client import Taker, check_publish, wire_headers
from berth.testing.simulation.nats.message import Publish
from berth.testing.simulation.nats.subscription import Callback, Subscription

if TYPE_CHECKING:
    from berth.testing.simulation.nats.rights import Rights
    from berth.testing.simulation.nats.server import SimNats

PING_DEADLINE_S = 15.0
"""Without an answer for so long a client takes its connection for dead."""

_LINE_BREAKS = str.maketrans("\r\n", "  ")


class Version(NamedTuple):
    """Of the server."""

    major: int
    minor: int
    patch: int


class Nuid:
    """Unique names as nats-py makes them."""

    def __init__(self, next_name: Callable[[], str]) -> None:
        self._next = next_name

    def next(self) -> bytes:
        """Another one."""
        return self._next().encode()


class SimClient:
    """See `berth.bus.client.BusClient`. Made by `SimNats.clients_of`."""

    def __init__(self, server: SimNats, owner: Any, rights: Rights | None = None) -> None:
        self.server = server
        self.owner = owner
        self.rights = rights
        self.takers: dict[int, Taker] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.routed: dict[int, Subscription] = {}
        """What the server knows of."""
        self.last_error: Exception | None = None
        self.name = ""
        self.server_id = ""
        self.held = False
        """Nothing gets through, in either direction; see `hold`."""
        self.accepted = False
        """The server's side of the connection is open."""
        self.is_connected = False
        """The client believes that there is a connection."""
        self.is_closed = False
        """It was closed, by itself or by a loss."""
        self._up: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._up_due = False
        self._numbers = 0
        self._nuid = Nuid(server.next_name)
        self._on_loss: Callable[[], Awaitable[None]] | None = None
        self._on_error: Callable[[Exception], Awaitable[None]] | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._flushes: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def max_payload(self) -> int:
        """Largest message in bytes."""
        return self.server.max_payload

    @property
    def connected_server_version(self) -> Version:
        """Of the server."""
        return Version(*self.server.version)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def connect(self, **options: Any) -> None:
        """Connect. Raises OSError when nobody takes the connection."""
        self.name = str(options.get("name", ""))
        self._on_loss = options.get("disconnected_cb")
        self._on_error = options.get("error_cb")
        self._connecting = asyncio.get_running_loop().create_future()
        self.server.later(self.server.faults.up_s(self), self.server.accept, self)
        try:
            await self._connecting
        finally:
            self._connecting = None

    def answer_connect(self, server_id: str) -> None:
        """In the client's process: the server took the connection, or (no identity) nobody did."""
        waiting = self._connecting
        if waiting is None or waiting.done():
            self.server.forget(self)  # given up meanwhile
            return
        if server_id:
            self.server_id = server_id
            self.is_connected = True
            waiting.set_result(None)
        else:
            waiting.set_exception(ConnectionRefusedError("nobody takes the connection"))

    async def close(self) -> None:
        """Disconnect; what was published before still arrives."""
        if self.is_connected:
            self._send(self.server.forget, self)
        elif not self.held:  # else the server does not hear of it before what was sent has come through
            self.server.forget(self)
        self._end()

    def lost(self, text: str) -> None:
        """In the client's process: the connection is found to be broken."""
        if not self.is_connected:
            return
        self.last_error = ConnectionResetError(text)
        self._end()
        if self._on_loss is not None:
            self._spawn(self._on_loss())

    def deny(self, what: str, subject: str) -> None:
        """In the client's process: the server refuses a publish or a subscription. The connection stands."""
        if self.is_connected and self._on_error is not None:
            self._spawn(self._on_error(PermissionError(f'permissions violation for {what} to "{subject.lower()}"')))

    async def report(self, error: Exception) -> None:
        """Tell the owner's callback of an error."""
        if self._on_error is not None:
            await self._on_error(error)

    def _end(self) -> None:
        self.is_connected, self.is_closed = False, True
        for subscription in self.subscriptions.values():
            subscription.stop()
        self.subscriptions.clear()
        self.takers.clear()
        for waiting in self._flushes:
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("connection lost"))
                waiting.exception()
        self._flushes.clear()

    def _spawn(self, run: Awaitable[None]) -> None:
        async def whole() -> None:
            await run

        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.get_running_loop().create_task(whole()))

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, arrive: Callable[..., None], *args: Any) -> None:
        """Put something on its way up; all of a burst arrives at once, in order."""
        self._up.append((arrive, args))
        if len(self._up) == 1:
            self.server.later(self.server.faults.up_s(self), self._arrive)

    def _arrive(self) -> None:
        """At the server."""
        if self.held:
            self._up_due = True
            return
        self.arrive(len(self._up))

    def hold(self) -> None:
        """From now on nothing gets through."""
        self.held = True

    def let_go(self) -> None:
        """Everything that was held back gets through."""
        self.held = False
        if self._up_due:
            self._up_due = False
            self.server.later(0.0, self._arrive)
        for subscription in list(self.subscriptions.values()):
            subscription.let_go()

    def arrive(self, count: int) -> None:
        """Let the first `count` of what is on its way up arrive now."""
        up = self._up
        for _ in range(min(count, len(up))):
            arrive, args = up.popleft()
            if self.accepted:
                arrive(*args)

    def discard(self) -> None:
        """Whatever is on its way up is lost."""
        self._up = deque()

    def post(self, subject: str, payload: bytes, reply: str, headers: Mapping[str, str] | None) -> bool:
        """Publish without waiting."""
        if not self.is_connected:
            raise ConnectionResetError("connection closed")
        check_publish(subject, payload, reply, self.server.max_payload)
        raw = wire_headers(headers) if headers else b""
        self._send(self.server.receive, Publish(subject, payload, reply, headers, raw, self))
        return True

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish; line breaks in headers become spaces, as nats-py makes them."""
        if headers:
            headers = {name: value.strip().translate(_LINE_BREAKS) for name, value in headers.items()}
        self.post(subject, payload, reply, headers)

    async def flush(self, timeout: int = 10) -> None:  # noqa: ASYNC109 - as nats-py has it
        """Return once everything so far has arrived. Raises OSError, TimeoutError."""
        if not self.is_connected:
            raise ConnectionResetError("connection closed")
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append(waiting)
        self._send(self.server.pong, self, waiting)
        try:
            async with asyncio.timeout(timeout):
                await waiting
        finally:
            if waiting in self._flushes:
                self._flushes.remove(waiting)

    # --- subscribing --------------------------------------------------------------------------------------------------

    async def subscribe(self, subject: str, queue: str = "", cb: Callback | None = None) -> Subscription:
        """A subscription whose messages go to the callback, one after the other."""
        if not self.is_connected:
            raise ConnectionResetError("connection closed")
        self._numbers += 1
        subscription = Subscription(self, self._numbers, subject, queue, cb)
        self.subscriptions[subscription._id] = subscription
        self._send(self.server.subscribed, subscription)
        return subscription

    async def take(self, subject: str, taker: Taker, *, queue: str = "") -> Subscription:
        """A subscription whose messages go to the taker at once."""
        subscription = await self.subscribe(subject, queue)
        self.takers[subscription._id] = taker
        return subscription

    def retake(self, subscription: Subscription, taker: Taker) -> None:
        """Another taker from the next message on."""
        self.takers[subscription._id] = taker

    async def release(self, subscription: Subscription) -> None:
        """End a subscription."""
        await subscription.unsubscribe()

    def drop(self, subscription: Subscription) -> None:
        """End a subscription without waiting."""
        self.takers.pop(subscription._id, None)
        if self.subscriptions.pop(subscription._id, None) is not None and self.is_connected:
            self._send(self.server.unsubscribed, subscription)
