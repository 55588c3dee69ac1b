"""Ends of placements that nobody published: those that came while no writer looked, found in the kept events."""

from __future__ import annotations

import asyncio

from berth.bus.errors import BusError
from berth.bus.port import BusPort, Message
from berth.cluster_writer import metrics
from berth.cluster_writer.core.placements import Placements
from berth.cluster_writer.event_publisher import ended_id
from berth.contracts import buckets, event, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.runtime.clock import Clock
from berth.transaction.claims import Name

LOOK_EVERY_S = 5.0


class Endings:
    """Asks of each doubt whether the pod was bound, and whether its end was published."""

    def __init__(self, bus: BusPort, placements: Placements, clock: Clock) -> None:
        self._bus = bus
        self._placements = placements
        self._clock = clock

    async def run(self, ready: asyncio.Event) -> None:
        """Look until cancelled, from the moment that the view is known."""
        await ready.wait()
        while True:
            await self._look()
            await self._clock.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        """Every doubt once; what the bus cannot answer is asked again next time."""
        for name in list(self._placements.doubts):
            try:
                await self._settle(name)
            except BusError:
                return
            self._placements.doubts.pop(name, None)

    async def _settle(self, name: Name) -> None:
        bound = _read(await self._bus.last_event(subjects.event_subject("placement", "bound", *name)))
        if not isinstance(bound, event.PlacementBound):
            return
        ended = _read(await self._bus.last_event(subjects.event_subject("placement", "ended", *name)))
        if isinstance(ended, event.PlacementEnded) and ended.uid == bound.uid:
            return
        reason = self._placements.reason(name, bound.uid)
        if reason:
            message = event.PlacementEnded(
                namespace=bound.namespace,
                name=bound.name,
                uid=bound.uid,
                node=bound.node,
                plan=bound.plan,
                reason=reason,
            )
            await self._bus.events().publish(
                subjects.event_subject("placement", "ended", *name),
                encode(message),
                id=ended_id(bound.uid),
                type=str(event.PlacementEnded.__struct_config__.tag),
            )


def _read(message: Message | None) -> event.PlacementBound | event.PlacementEnded | None:
    if message is None:
        return None
    try:
        return decode(message.data, event.PlacementBound | event.PlacementEnded)  # type: ignore[arg-type]
    except InvalidMessage:
        metrics.BROKEN_MESSAGES.labels(buckets.EVENTS).inc()
        return None
