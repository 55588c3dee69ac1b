"""Kubernetes Events behind the binds: bounded, slower than they come in under pressure, dropped with a count.

An Event costs the API server as much as a bind, and nobody's decision depends on one.
"""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import Callable
from typing import NamedTuple

from berth.cluster_writer import metrics
from berth.kube import bodies, resources
from berth.kube.api import KubeApi
from berth.kube.bodies import ObjectRef
from berth.runtime.clock import Clock

COMPONENT = "berth-scheduler"
QUEUE_MAX = 2000
BUSY_PAUSE_S = 0.05
BUSY_ABOVE = 64
PAUSE_PER_EVENT = 20.0
PAUSE_MAX_S = 1.0
"""An Event is followed by a pause of so many times what it took, within this bound: it takes long where the API server
is busy, and there it gives way."""
ALREADY_THERE = 409
"""The status of an answer about an object whose name is taken."""


def pause_s(took_s: float, least_s: float) -> float:
    """The pause after an Event that took so long; `least_s` is that of the setting."""
    return max(least_s, min(PAUSE_PER_EVENT * took_s, PAUSE_MAX_S))


class Note(NamedTuple):
    """An Event to come. `action`: what was being done, as kube-scheduler calls it.

    `token` is the last part of its name: of one that is there already, none is made again. Empty: chance decides.
    """

    about: ObjectRef
    reason: str
    message: str
    warning: bool = False
    action: str = ""
    token: str = ""


class Outbox:
    """Sends Events one after the other, at most `per_second`, and only while few binds are open."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        random: randomness.Random,
        instance: str,
        *,
        per_second: float,
        is_busy: Callable[[], bool],
    ) -> None:
        self._api = api
        self._clock = clock
        self._random = random
        self._instance = instance
        self._pause_s = 1.0 / per_second if per_second > 0 else 0.0
        self._is_off = per_second <= 0
        self._is_busy = is_busy
        self._queue: asyncio.Queue[Note] = asyncio.Queue(QUEUE_MAX)

    def put(self, note: Note) -> None:
        """Send it when there is time; dropped when the box is full or switched off."""
        if self._is_off or self._queue.full():
            metrics.EVENTS.labels("dropped").inc()
            return
        self._queue.put_nowait(note)

    async def run(self) -> None:
        """Work for ever."""
        while True:
            note = await self._queue.get()
            while self._is_busy():
                await self._clock.sleep(BUSY_PAUSE_S)
            body = bodies.event(
                note.about,
                reason=note.reason,
                message=note.message,
                warning=note.warning,
                component=COMPONENT,
                instance=self._instance,
                now=self._clock.now(),
                token=note.token or f"{self._random.getrandbits(64):016x}",
                action=note.action,
            )
            began = self._clock.monotonic()
            answer = await self._api.create(resources.EVENTS, note.about.namespace or "default", body)
            known = bool(note.token) and answer.status == ALREADY_THERE
            metrics.EVENTS.labels("sent" if answer.ok else "known" if known else "failed").inc()
            await self._clock.sleep(pause_s(self._clock.monotonic() - began, self._pause_s))
