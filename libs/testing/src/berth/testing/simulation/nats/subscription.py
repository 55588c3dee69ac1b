"""The way from the server to one subscription of a client: in order, at its own speed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from berth.bus.client import Delivery, Taker

if TYPE_CHECKING:
    from berth.testing.simulation.nats.client import SimClient

log = logging.getLogger(__name__)


class SimMessage:
    """A message as a callback of nats-py gets it."""

    def __init__(self, client: SimClient, delivery: Delivery) -> None:
        self._client = client
        self.subject = delivery.subject
        self.reply = delivery.reply
        self.data = delivery.data
        self.headers: Mapping[str, str] | None = dict(delivery.headers) or None

    async def respond(self, data: bytes) -> None:
        """Answer it."""
        await self._client.publish(self.reply, data, headers=self.headers)


Callback = Callable[[SimMessage], Awaitable[None]]


class Subscription:
    """One subscription; `push` is the server's end of it."""

    def __init__(self, client: SimClient, number: int, subject: str, queue: str, callback: Callback | None) -> None:
        self._id = number
        self.client = client
        self.subject = subject
        self.queue = queue
        self._way: deque[Delivery] = deque()
        self._due = False
        self._callback = callback
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue() if callback else None  # type: ignore[assignment]
        self._task: asyncio.Task[None] | None = None

    async def unsubscribe(self) -> None:
        """End it."""
        self.client.drop(self)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def push(self, delivery: Delivery) -> None:
        """Send a message on its way."""
        way = self._way
        way.append(delivery)
        if len(way) == 1:
            server = self.client.server
            server.scheduler.deliver(self.client, server.faults.down_s(self), self._arrive)

    def let_go(self) -> None:
        """What was held back gets through."""
        if self._due:
            self._due = False
            self.client.server.scheduler.deliver(self.client, 0.0, self._arrive)

    def _arrive(self) -> None:
        """In the client's process: hand on what has come."""
        client, way = self.client, self._way
        if not client.is_connected:
            way.clear()
            return
        if client.held:
            self._due = True
            return
        server = client.server
        count = server.faults.chunk(self)
        if 0 < count < len(way):
            server.scheduler.deliver(client, 0.0, self._arrive)
            arrived = [way.popleft() for _ in range(count)]
        else:
            arrived = list(way)
            way.clear()
        takers = client.takers
        for delivery in arrived:
            taker = takers.get(self._id) or self._take
            try:
                taker(delivery)
            except Exception:
                log.exception("a taker failed")

    def _take(self, delivery: Delivery) -> None:
        """For the callback, if there is one: one message after the other."""
        if self._callback is None or self._id not in self.client.subscriptions:
            return
        self._waiting.put_nowait(delivery)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._callback))

    async def _run(self, callback: Callback) -> None:
        while True:
            message = SimMessage(self.client, await self._waiting.get())
            try:
                await callback(message)
            except Exception as error:
                await self.client.report(error)

    def stop(self) -> None:
        """The connection is over: whatever was on its way is lost."""
        self._way.clear()
        if self._task is not None:
            self._task.cancel()


__all__ = ["Callback", "SimMessage", "Subscription", "Taker"]
