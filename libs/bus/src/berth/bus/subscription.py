"""A subscription of the link: made again on every connection, until somebody ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from nats.errors import Error as NatsError

from berth.bus.client import BusClient, Taker


class LinkSubscription:
    """A subscription that outlives connections. `forget` keeps it from being made again."""

    def __init__(self, subject: str, queue: str, taker: Taker, forget: Callable[[LinkSubscription], None]) -> None:
        self.subject = subject
        self.queue = queue
        self.taker = taker
        self._forget = forget
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
        self._forget(self)
        if self._client is not None and self._current is not None:
            with contextlib.suppress(NatsError, OSError):
                await self._client.release(self._current)
