"""Many publishes in flight, none of them with a future: one inbox, a token per message, a count.

Every message that was sent gets exactly one outcome, `acknowledged` or `lost` (time-out, connection lost, nobody
listens, denied). After `lost` it may have been stored or not: the owner of the window decides what that means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from berth.bus import headers as h
from berth.bus.client import Delivery
from berth.bus.errors import BusError, Disconnected
from berth.bus.jetstream import PubAck, decode_ack
from berth.bus.link import Link
from berth.bus.subscription import LinkSubscription

Item = TypeVar("Item")

ACK_TIMEOUT_S = 5.0
SWEEP_S = 0.5
CONNECTION_LOST = "connection lost"


class AckWindow(Generic[Item]):
    """At most `size` messages between their publish and their outcome."""

    def __init__(
        self,
        link: Link,
        *,
        size: int,
        acknowledged: Callable[[Item, PubAck], None],
        lost: Callable[[Item, str], None],
    ) -> None:
        self._link = link
        self._size = size
        self._acknowledged = acknowledged
        self._lost = lost
        self._prefix = f"{link.new_inbox()}."
        self._flights: dict[str, tuple[Item, str, float]] = {}  # token -> item, subject, deadline; oldest first
        self._token = 0
        self._space = asyncio.Event()
        self._space.set()
        self._opened = False
        self._subscription: LinkSubscription | None = None
        self._unhook: list[Callable[[], None]] = []
        self._sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._flights)

    async def open(self) -> None:
        """Subscribe to the answers; once."""
        if not self._opened:
            self._opened = True
            self._unhook = [self._link.on_disconnect(self._disconnected), self._link.on_denied(self._denied)]
            self._subscription = await self._link.subscribe(f"{self._prefix}*", self._answer)

    async def close(self) -> None:
        """Stop the sweep, the hooks and the answers."""
        for unhook in self._unhook:
            unhook()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def wait_while_full(self) -> None:
        """Return once another message may be sent."""
        while len(self._flights) >= self._size:
            self._space.clear()
            await self._space.wait()

    async def send(self, item: Item, subject: str, payload: bytes, headers: dict[str, str] | None) -> None:
        """Publish; the outcome comes through the callbacks, also when there is no connection."""
        self._token += 1
        token = f"{self._token:x}"
        self._flights[token] = (item, subject, asyncio.get_running_loop().time() + ACK_TIMEOUT_S)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        try:
            await self._link.publish(subject, payload, reply=self._prefix + token, headers=headers)
        except Disconnected:
            self._finish(token, CONNECTION_LOST)
        except BusError as error:
            self._finish(token, str(error))

    def _answer(self, msg: Delivery) -> None:
        token = msg.subject[len(self._prefix) :]
        flight = self._flights.pop(token, None)
        if flight is None:
            return
        self._space.set()
        if not msg.data and msg.headers and msg.headers.get(h.STATUS) == h.NO_RESPONDERS:
            self._lost(flight[0], "nobody listens")
        else:
            self._acknowledged(flight[0], decode_ack(msg.data))

    def _finish(self, token: str, reason: str) -> None:
        flight = self._flights.pop(token, None)
        if flight is not None:
            self._space.set()
            self._lost(flight[0], reason)

    def _sweep(self) -> None:
        """Time out what is overdue; deadlines grow in the order of the dict."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        overdue = []
        for token, (_, _, deadline) in self._flights.items():
            if deadline > now:
                break
            overdue.append(token)
        for token in overdue:
            self._finish(token, "no acknowledgement in time")
        self._sweeper = loop.call_later(SWEEP_S, self._sweep) if self._flights else None

    def _disconnected(self) -> None:
        for token in list(self._flights):
            self._finish(token, CONNECTION_LOST)

    def _denied(self, subject: str) -> None:
        for token, flight in list(self._flights.items()):
            if flight[1].lower() == subject:
                self._finish(token, "permission denied")
