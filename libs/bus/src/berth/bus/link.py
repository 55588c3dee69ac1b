"""One connection to the bus that never gives up.

Every connection is a fresh client: nothing written for one connection is sent on the next, and whoever waits for an
answer hears of a loss at once instead of by time-out. Subscriptions made here are made again on every connection.
A denied subject is logged, counted and fails the request that waits for it; a user that may not even read its answers
fails every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as randomness
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from nats.errors import Error as NatsError

from berth.bus import headers as h
from berth.bus import metrics
from berth.bus.client import BusClient, ClientFactory, Delivery, Taker, direct_client
from berth.bus.errors import BusError, Denied, Disconnected, NoAnswer, TimedOut
from berth.bus.port import Clock
from berth.bus.settings import BusSettings

log = logging.getLogger(__name__)

PING_INTERVAL_S = 5
RECONNECT_FIRST_S = 0.02
WATCH_INTERVAL_S = 1.0
"""How often the client is asked whether it is connected, should it ever forget to tell."""
DENIED_KEPT = 1000
"""Denied subjects remembered, so that each is logged loudly once."""
# The client library hands errors of the server on in lower case.
_DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)


class LinkSubscription:
    """A subscription that outlives connections."""

    def __init__(self, link: Link, subject: str, queue: str, taker: Taker) -> None:
        self.subject = subject
        self.queue = queue
        self.taker = taker
        self._link = link
        self._client: BusClient | None = None
        self._current: Any = None

    async def attach(self, client: BusClient) -> None:
        """Subscribe on this connection."""
        self._client = client
        self._current = await client.take(self.subject, self.taker, queue=self.queue)

    def replace(self, taker: Taker) -> None:
        """Another taker from the next message on."""
        self.taker = taker
        if self._client is not None and self._current is not None:
            self._client.retake(self._current, taker)

    async def unsubscribe(self) -> None:
        """End it, now and for later connections."""
        self._link.forget(self)
        if self._client is not None and self._current is not None:
            with contextlib.suppress(NatsError, OSError):
                await self._client.release(self._current)


class Link:
    """The connection, its inbox, requests and subscriptions."""

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
        self.inbox_prefix = f"_INBOX_{service}"
        self._settings = settings
        self._clock = clock
        self._random = random
        self._make_client = client
        self._client: BusClient | None = None
        self._closed = False
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._subscriptions: dict[LinkSubscription, None] = {}
        self._requests: dict[str, tuple[str, asyncio.Future[Delivery]]] = {}
        self._reply_prefix = f"{self.new_inbox()}."
        self._answers = f"{self._reply_prefix}*"
        self._tokens = 0
        self._denied_before: dict[str, None] = {}
        self._is_deaf = False
        self._on_connect: list[Callable[[BusClient], Awaitable[None]]] = []
        self._on_disconnect: dict[Callable[[], None], None] = {}
        self._on_denied: dict[Callable[[str], None], None] = {}

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; returns with the first connection, however long that takes."""
        await self.subscribe(self._answers, self._reply)
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
            client = await self._dial()
            try:
                await self._serve(client)
            finally:
                self._drop()
                await _shut(client)

    async def _serve(self, client: BusClient) -> None:
        """From the first byte of a connection to its end."""
        self._client = client
        self._lost.clear()
        self._is_deaf = False
        try:
            for subscription in list(self._subscriptions):
                await subscription.attach(client)
            for hook in self._on_connect:
                await hook(client)
            await barrier(client, 5)
        except (TimeoutError, NatsError, OSError) as error:
            log.warning("bus connection failed while it was set up: %s", error)
            return
        self.generation += 1
        metrics.CONNECTIONS.inc()
        metrics.CONNECTED.set(1)
        self.connected.set()
        log.info("connected to the bus", extra={"server_version": str(client.connected_server_version)})
        while client.is_connected:
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(WATCH_INTERVAL_S):
                    await self._lost.wait()
                    break
        log.warning("connection to the bus lost")

    def _drop(self) -> None:
        """Tell everybody who waits for this connection."""
        self._client = None
        self.connected.clear()
        metrics.CONNECTED.set(0)
        waiting, self._requests = self._requests, {}
        for _, future in waiting.values():
            if not future.done():
                future.set_exception(Disconnected("connection to the bus lost"))
        for hook in list(self._on_disconnect):
            hook()

    async def _dial(self) -> BusClient:
        """Try until a server takes us; pauses grow and vary."""
        pause_s, attempts = RECONNECT_FIRST_S, 0
        while True:
            client = self._make_client(self._settings)
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s * 2):
                    await client.connect(**self._options())
                if client.is_connected:
                    return client
                problem: object = client.last_error or "connection closed"
            except (TimeoutError, NatsError, OSError, ValueError) as error:
                problem = error if str(error) else type(error).__name__
            except asyncio.CancelledError:
                await _shut(client)
                raise
            await _shut(client)
            level = logging.WARNING if attempts % 20 == 0 else logging.DEBUG
            log.log(level, "cannot connect to the bus, trying again: %s", problem)
            attempts += 1
            await self._clock.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, self._settings.reconnect_max_s)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        options: dict[str, Any] = {
            "servers": settings.urls,
            "name": settings.name or self.service,
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0.05,
            "connect_timeout": settings.connect_timeout_s,
            "ping_interval": PING_INTERVAL_S,
            "max_outstanding_pings": 2,
            "inbox_prefix": self.inbox_prefix,
            "error_cb": self._error,
            "disconnected_cb": self._disconnected,
            "flusher_queue_size": 8192,
            "pending_size": 8 * 1024 * 1024,
        }
        if settings.user:
            options["user"] = settings.user
        if settings.password_file:
            options["password"] = Path(settings.password_file).read_text().strip()
        if settings.creds_file:
            options["user_credentials"] = settings.creds_file
        if settings.ca_file:
            try:
                options["tls"] = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as error:  # it does not say which file
                raise OSError(f"{error}: {settings.ca_file!r}") from error
        return options

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
            await asyncio.sleep(0)  # whoever tries again and again must not keep the link from running
            raise
        self.connected.clear()
        self._lost.set()
        await asyncio.sleep(0)
        raise Disconnected(problem)

    async def request(
        self, subject: str, payload: bytes = b"", *, timeout_s: float, headers: dict[str, str] | None = None
    ) -> Delivery:
        """One answer. Raises Disconnected, Denied, NoAnswer or TimedOut."""
        with self.expect(subject) as (reply, future):
            await self.publish(subject, payload, reply=reply, headers=headers)
            return await self.answer(subject, future, timeout_s)

    @contextlib.contextmanager
    def expect(self, subject: str) -> Any:
        """A reply subject and the future of the first answer to it."""
        self._tokens += 1
        token = f"{self._tokens:x}"
        future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._requests[token] = (subject, future)
        if self._is_deaf:
            future.set_exception(Denied(self._answers))
        try:
            yield self._reply_prefix + token, future
        finally:
            self._requests.pop(token, None)
            if future.done() and not future.cancelled():
                future.exception()
            else:
                future.cancel()

    async def answer(self, subject: str, future: asyncio.Future[Delivery], timeout_s: float) -> Delivery:
        """Wait for what `expect` promised."""
        try:
            async with asyncio.timeout(timeout_s):  # unlike wait_for, it never swallows a cancellation
                msg = await future
        except TimeoutError:
            raise TimedOut(f"no answer within {timeout_s:g} s: {subject}") from None
        if not msg.data and msg.headers and msg.headers.get(h.STATUS) == h.NO_RESPONDERS:
            raise NoAnswer(f"nobody listens: {subject}")
        return msg

    def _reply(self, msg: Delivery) -> None:
        waiting = self._requests.get(msg.subject[len(self._reply_prefix) :])
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(msg)

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
        subscription = LinkSubscription(self, subject, queue, taker)
        self._subscriptions[subscription] = None
        if self._client is not None:
            with contextlib.suppress(NatsError, OSError):
                await subscription.attach(self._client)
        return subscription

    async def flush(self) -> None:
        """Return once the server has taken what was sent so far; at once when there is no connection."""
        if self._client is not None:
            with contextlib.suppress(NatsError, OSError, TimeoutError):
                await barrier(self._client, 5)

    def forget(self, subscription: LinkSubscription) -> None:
        """Do not make this subscription again."""
        self._subscriptions.pop(subscription, None)

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
        self._on_denied[hook] = None
        return lambda: self._on_denied.pop(hook, None) and None

    async def _disconnected(self) -> None:
        self._lost.set()

    async def _error(self, error: Exception) -> None:
        text = str(error)
        denied = _DENIED.search(text)
        if denied is not None:
            self._denied(denied[1].lower(), denied[2])
        elif "slow consumer" in text:
            metrics.SLOW_CONSUMERS.inc()
            log.warning("a reader is late, the client dropped a message")
        elif isinstance(error, NatsError | OSError | asyncio.TimeoutError):
            log.debug("bus connection: %s", error or type(error).__name__)
        else:
            log.error("a callback failed", exc_info=error)

    def _denied(self, operation: str, subject: str) -> None:
        """`subject` is in lower case; what waits for it knows how it is really spelt."""
        metrics.PERMISSION_ERRORS.labels(operation).inc()
        deaf = operation == "subscription" and subject == self._answers.lower()
        waiting = [(wanted, future) for wanted, future in self._requests.values() if deaf or wanted.lower() == subject]
        spelt = self._answers if deaf else waiting[0][0] if waiting else subject
        level = logging.DEBUG if subject in self._denied_before else logging.ERROR
        log.log(level, "permission denied by the bus: %s to %s", operation, spelt)
        self._denied_before[subject] = None
        if len(self._denied_before) > DENIED_KEPT:
            self._denied_before.clear()
        self._is_deaf = self._is_deaf or deaf
        for _, future in waiting:
            if not future.done():
                future.set_exception(Denied(spelt))
        if operation == "publish":
            for hook in list(self._on_denied):
                hook(subject)


async def _shut(client: BusClient) -> None:
    """Close a client, whatever state it is in, and never wait long for it."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(1):
            await client.close()
    transport = getattr(client, "_transport", None)
    if transport:
        with contextlib.suppress(Exception):
            transport.close()


async def barrier(client: BusClient, timeout_s: int) -> None:
    """Return once the server has taken everything sent so far.

    Twice, because the client's ping overtakes what waits in its own buffer; the second one does not.
    """
    await client.flush(timeout=timeout_s)
    await client.flush(timeout=timeout_s)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and return once they have ended; again and again, for the client library swallows cancellations."""
    left = [task for task in tasks if not task.done()]
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.5)
        left = [task for task in left if not task.done()]


def describe(error: BusError | Exception) -> str:
    """A text for logs, never empty."""
    return str(error) or type(error).__name__
