"""A plain subscription with a callback that may wait: one message after the other, from a bounded queue.

Nothing is stored. What comes while disconnected is missed, and what does not fit into the queue is dropped and counted.
"""

from __future__ import annotations

import asyncio

from berth.bus import metrics
from berth.bus.client import Delivery
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Handler, Message
from berth.bus.subscription import LinkSubscription
from berth.bus.tasks import end_tasks

log = FieldLogger(__name__)

WAITING_MAX = 65_536


class Listener:
    """Calls its handler for every message until it is ended."""

    def __init__(self, subject: str, handler: Handler) -> None:
        self._subject = subject
        self._handler = handler
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue(WAITING_MAX)
        self._subscription: LinkSubscription | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, link: Link, subject: str, handler: Handler) -> Listener:
        """Subscribe now, or with the next connection, and with every later one."""
        listener = cls(subject, handler)
        listener._task = asyncio.create_task(listener._run(), name=f"bus-listener-{subject}")
        listener._subscription = await link.subscribe(subject, listener._take)
        return listener

    async def unsubscribe(self) -> None:
        """End it; what still waits is dropped."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()
        if self._task is not None and self._task is not asyncio.current_task():
            await end_tasks([self._task])

    def _take(self, delivery: Delivery) -> None:
        try:
            self._waiting.put_nowait(delivery)
        except asyncio.QueueFull:
            metrics.SLOW_CONSUMERS.inc()
            log.warning("a reader is late, a message is dropped", subject=self._subject)

    async def _run(self) -> None:
        while True:
            got = await self._waiting.get()
            try:
                await self._handler(Message(subject=got.subject, data=got.data, headers=got.headers))
            except Exception:
                log.exception("a handler failed", subject=self._subject)
