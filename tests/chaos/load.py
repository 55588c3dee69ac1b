"""The mix on its way in and out at a steady rate, whatever the faults do; and the latency of its probes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp
from tests.chaos.eyes import Eyes, Life
from tests.chaos.mix import PROBE, Arrival, Json, Mix

from berth.cli.load.api import Api, path_of
from berth.cli.load.creator import Creation, create
from berth.contracts.codec import encode

TICK_S = 0.25
RETRY_PAUSE_S = 0.3
POLL_S = 0.02
DELETED = (200, 202, 404)


class Load:
    """An asynchronous context. Nothing arrives and nothing is deleted while it is `pause`d."""

    def __init__(self, api: Api, eyes: Eyes, mix: Mix) -> None:
        self.created: set[str] = set()
        """Names of pods that the API server has accepted and that nobody has begun to delete."""
        self._api = api
        self._eyes = eyes
        self._mix = mix
        self._going = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._staying: list[tuple[float, Arrival]] = []
        self._clock: asyncio.Task[None]

    async def __aenter__(self) -> Load:
        self._clock = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._clock, *self._tasks):
            task.cancel()
        await asyncio.gather(self._clock, *self._tasks, return_exceptions=True)

    def resume(self) -> None:
        """Let pods come and go."""
        self._going.set()

    async def pause(self) -> None:
        """Return once nothing of ours is under way; what is there stays."""
        self._going.clear()
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _tick(self) -> None:
        while True:
            await self._going.wait()
            for arrival in self._mix.tick():
                self._spawn(self._arrive(arrival))
            now = asyncio.get_running_loop().time()
            due = [each for each in self._staying if each[0] <= now and self._may_leave(each[1])]
            self._staying = [each for each in self._staying if each not in due]
            for _, arrival in due:
                self._spawn(self._leave(arrival))
            await asyncio.sleep(TICK_S)

    def _may_leave(self, arrival: Arrival) -> bool:
        """A probe stays until it is bound, so that the longest wait is not the one that is left out."""
        name = arrival.manifests[0]["metadata"]["name"]
        life = self._eyes.newest.get(name)
        return not name.startswith(f"{PROBE}-") or (life is not None and bool(life.node))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _arrive(self, arrival: Arrival) -> None:
        pods = _pods(arrival)
        if any(name in self.created or self._eyes.is_here(name) for name in pods):
            return  # the last one of this name is still there
        self.created.update(pods)
        creations = [Creation(path_of(each), encode(each), self._sending(each)) for each in arrival.manifests]
        await create(self._api, creations, in_flight=1)
        self._staying.append((asyncio.get_running_loop().time() + arrival.stay_s, arrival))

    def _sending(self, manifest: Json) -> Any:
        def sending() -> None:
            if manifest["kind"] == "Pod":
                self._eyes.sending(manifest["metadata"]["name"])

        return sending

    async def _leave(self, arrival: Arrival) -> None:
        self.created.difference_update(_pods(arrival))
        for manifest in reversed(arrival.manifests):
            await self._delete(f"{path_of(manifest)}/{manifest['metadata']['name']}")

    async def _delete(self, path: str) -> None:
        while True:
            try:
                if await self._api.delete(path) in DELETED:
                    return
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            await asyncio.sleep(RETRY_PAUSE_S)

    # --- what became of it --------------------------------------------------------------------------------------------

    def unsettled(self) -> list[str]:
        """Pods that exist, as far as we know, and are neither bound nor told why not; those that vanished as well."""
        newest = self._eyes.newest
        return sorted(
            name for name in self.created if name not in newest or newest[name].gone or not newest[name].is_settled
        )

    def probes(self) -> list[Life]:
        """Every probe that was seen."""
        return [life for life in self._eyes.lives.values() if life.name.startswith(f"{PROBE}-")]

    async def recovered(self, mark: float, timeout_s: float) -> float | None:
        """Seconds from `mark` until a probe that was sent after it is bound; None: not within the time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while loop.time() < deadline:
            bound = [life.bound for life in self.probes() if life.sent >= mark and life.bound >= 0]
            if bound:
                return min(bound) - mark
            await asyncio.sleep(POLL_S)
        return None

    def p99_ms(self, begin: float, end: float) -> float | None:
        """Of the probes sent in this time: from sending to the bind, as the watch shows it."""
        return p99(
            [1000 * (life.bound - life.sent) for life in self.probes() if begin <= life.sent < end and life.bound >= 0]
        )

    def forget(self) -> None:
        """Drop what has ended, so that a long run stays small."""
        lives = self._eyes.lives
        for uid in [uid for uid, life in lives.items() if life.gone]:
            del lives[uid]


def p99(values: Sequence[float]) -> float | None:
    """The 99th percentile by nearest rank; None of nothing."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1] if values else None


def _pods(arrival: Arrival) -> Iterable[str]:
    return [each["metadata"]["name"] for each in arrival.manifests if each["kind"] == "Pod"]
