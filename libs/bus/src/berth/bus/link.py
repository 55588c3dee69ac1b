"""One connection to the bus that never gives up.

Every connection is a fresh client: nothing written for one connection is sent on the next, and a caller that waits for
an answer hears of a loss at once instead of by time-out. Subscriptions made here are made again on every connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as randomness
from collections.abc import Awaitable, Callable

from nats.errors import Error as NatsError

from berth.bus import metrics
from berth.bus.beat import Beat
from berth.bus.client import BusClient, ClientFactory, Delivery, Taker, direct_client
from berth.bus.connecting import Connector, barrier, shut
from berth.bus.connection_errors import ConnectionErrors
from berth.bus.errors import BusError, Disconnected, describe
from berth.bus.logs import FieldLogger
from berth.bus.port import Clock
from berth.bus.replies import Replies
from berth.bus.settings import BusSettings
from berth.bus.subscription import LinkSubscription
from berth.bus.tasks import end_tasks

log = FieldLogger(__name__)

WATCH_INTERVAL_S = 1.0
"""How often the client is asked whether it is connected, should it ever forget to tell."""


class Link:
    """The connection, requests and subscriptions. `replies` is where the answers to requests come in, `beat` says when
    those ask who follow by asking."""

    def __init__(
        self,
        settings: BusSettings,
        *,
        service: str,
        clock: Clock,
        random: randomness.Random,
        client: ClientFactory = direct_client,
    ) -> None:
        self.service = service
        self.generation = 0
        self.connected = asyncio.Event()
        self.inbox_prefix = f"_INBOX_{service}.{settings.inbox}" if settings.inbox else f"_INBOX_{service}"
        self.api = settings.api
        self._random = random
        self.beat = Beat(random)
        self._client: BusClient | None = None
        self._closed = False
        self._lost = asyncio.Event()
        self._watcher: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._subscriptions: dict[LinkSubscription, None] = {}
        self._on_connect: list[Callable[[BusClient], Awaitable[None]]] = []
        self._on_disconnect: dict[Callable[[], None], None] = {}
        self.replies = Replies(self.new_inbox())
        self._connection_errors = ConnectionErrors(self.replies)
        self._connector = Connector(
            settings,
            service=service,
            inbox_prefix=self.inbox_prefix,
            clock=clock,
            random=random,
            client=client,
            on_error=self._connection_errors.hear,
            on_lost=self._disconnected,
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; returns with the first connection, however long that takes."""
        await self.subscribe(self.replies.subject, self.replies.take)
        self._task = asyncio.create_task(self._run(), name="bus-link")
        waiter = asyncio.create_task(self.connected.wait())
        try:
            await asyncio.wait({waiter, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        finally:
            waiter.cancel()
        if self._task.done():
            await self._task

    async def close(self) -> None:
        """Flush what was published and disconnect for good."""
        self._closed = True
        client = self._client
        if client is not None and client.is_connected:
            with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
                await barrier(client, 2)
        if self._task is not None:
            await end_tasks([self._task])

    async def _run(self) -> None:
        while not self._closed:
            client = await self._connector.dial()
            try:
                await self._serve(client)
            finally:
                self._drop()
                await shut(client)

    async def _serve(self, client: BusClient) -> None:
        """From the first byte of a connection to its end."""
        self._client = client
        self._lost.clear()
        self.replies.begin()
        try:
            for subscription in list(self._subscriptions):
                await subscription.attach(client)
            for hook in self._on_connect:
                await hook(client)
            await barrier(client, 5)
        except (TimeoutError, NatsError, OSError) as error:
            log.warning("the connection to the bus failed while it was set up", error=str(error))
            return
        self.generation += 1
        metrics.CONNECTIONS.inc()
        metrics.CONNECTED.set(1)
        self.connected.set()
        log.info("connected to the bus", server_version=str(client.connected_server_version))
        self._watch(client)
        try:
            await self._lost.wait()
        finally:
            if self._watcher is not None:
                self._watcher.cancel()
        log.warning("connection to the bus lost")

    def _watch(self, client: BusClient) -> None:
        """Look from time to time whether there still is a connection."""
        if client.is_connected:
            self._watcher = asyncio.get_running_loop().call_later(WATCH_INTERVAL_S, self._watch, client)
        else:
            self._lost.set()

    def _drop(self) -> None:
        """Tell everybody who waits for this connection."""
        self._client = None
        self.connected.clear()
        metrics.CONNECTED.set(0)
        self.replies.lose()
        for hook in list(self._on_disconnect):
            hook()
        self.beat.hurry()

    # --- sending and asking -------------------------------------------------------------------------------------------

    @property
    def client(self) -> BusClient:
        """The connected client. Raises Disconnected."""
        if self._client is None:
            raise Disconnected("not connected to the bus")
        return self._client

    @property
    def max_payload(self) -> int:
        """Largest message the server takes, in bytes, headers included."""
        return int(self.client.max_payload)

    @property
    def server_id(self) -> str:
        """Identity of the server process behind the connection: another one after its restart."""
        return self.client.server_id

    async def publish(
        self, subject: str, payload: bytes = b"", *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Hand a message to the connection; never buffers for a later one. Raises Disconnected, or BusError."""
        try:
            client = self.client
            if client.is_connected:
                if not client.post(subject, payload, reply, headers):
                    await client.publish(subject, payload, reply=reply, headers=headers)
                return
            problem = "connection to the bus lost"
        except (NatsError, OSError) as error:
            if client.is_connected:
                raise BusError(f"cannot publish {subject}: {describe(error)}") from error
            problem = f"connection to the bus lost: {describe(error)}"
        except Disconnected:
            await asyncio.sleep(0)  # a caller that retries in a tight loop must not keep the link from running
            raise
        self.connected.clear()
        self._lost.set()
        await asyncio.sleep(0)
        raise Disconnected(problem)

    async def request(
        self, subject: str, payload: bytes = b"", *, timeout_s: float, headers: dict[str, str] | None = None
    ) -> Delivery:
        """One answer. Raises Disconnected, Denied, NoAnswer or TimedOut."""
        with self.replies.expect(subject) as expected:
            await self.publish(subject, payload, reply=expected.reply, headers=headers)
            return await expected.answer(timeout_s)

    # --- subscribing --------------------------------------------------------------------------------------------------

    def new_inbox(self) -> str:
        """A subject nobody else uses, under the prefix that this service may subscribe to."""
        return f"{self.inbox_prefix}.{self.token()}"

    def token(self) -> str:
        """A text that nobody else comes up with: 96 bits of the random source that was given."""
        return self._random.randbytes(12).hex()

    async def subscribe(self, subject: str, taker: Taker, *, queue: str = "") -> LinkSubscription:
        """Subscribe now, or with the next connection, and with every later one.

        The taker is called for each message in order, in the event loop, before anything else gets a turn.
        """
        subscription = LinkSubscription(subject, queue, taker, self._forget)
        self._subscriptions[subscription] = None
        if self._client is not None:
            with contextlib.suppress(NatsError, OSError):
                await subscription.attach(self._client)
        return subscription

    def _forget(self, subscription: LinkSubscription) -> None:
        self._subscriptions.pop(subscription, None)

    async def flush(self) -> None:
        """Return once the server has taken what was sent so far; at once when there is no connection."""
        if self._client is not None:
            with contextlib.suppress(NatsError, OSError, TimeoutError):
                await barrier(self._client, 5)

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def on_connect(self, hook: Callable[[BusClient], Awaitable[None]]) -> None:
        """Call with every new connection, and now if there is one."""
        self._on_connect.append(hook)
        if self._client is not None:
            with contextlib.suppress(NatsError, OSError):
                await hook(self._client)

    def on_disconnect(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Call whenever the connection is lost; returns what ends that."""
        self._on_disconnect[hook] = None
        return lambda: self._on_disconnect.pop(hook, None) and None

    def on_denied(self, hook: Callable[[str], None]) -> Callable[[], None]:
        """Call with the lower-case subject of every denied publish; returns what ends that."""
        return self._connection_errors.on_denied(hook)

    async def _disconnected(self) -> None:
        self._lost.set()
