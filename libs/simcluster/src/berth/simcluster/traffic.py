"""A steady workload for trying things out: pods come, stay for a while and go, as users would have it.

It is a client of an API server like any other. Every pod carries a label, so that a new process takes over what an
earlier one left and the number of pods stays bounded. It measures nothing and promises no rate: when the server is away
or full, it waits. Use it on a simulated cluster, or on a real one that runs any image.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.generate.shares import POD_CLASSES
from berth.simcluster.store.objects import Json

LABEL = "sim.berth.sh/traffic"
GANG_EVERY = 12
"""Every so many arrivals a gang comes instead of a single pod."""
GANG_MEMBERS = 4
TIMEOUT_S = 10.0
_GANG = "gang.scheduling.koordinator.sh/"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSettings:
    """`rate`: arrivals a second. `stay_s`: mean life of a pod. `pods_max`: none comes while so many are there."""

    url: str
    rate: float = 1.0
    stay_s: float = 60.0
    pods_max: int = 200
    namespace: str = "default"
    seed: int = 0

    def problem(self) -> str:
        """What is wrong; empty if nothing."""
        if not 0 < self.rate <= 1000:
            return "rate: must be above 0 and at most 1000"
        if not 0 < self.stay_s <= 1e6:
            return "stay_s: must be above 0 and at most 1000000"
        return "" if 1 <= self.pods_max <= 100_000 else "pods_max: must be between 1 and 100000"


@dataclass(slots=True)
class Traffic:
    """Who is there and until when. Raises ValueError naming a setting that is wrong."""

    settings: TrafficSettings
    ends: dict[str, float] = field(default_factory=dict)  # pod name -> loop time at which it is deleted
    _random: random.Random = field(init=False)
    _prefix: str = field(init=False)
    _arrivals: int = 0
    _quiet: bool = False

    def __post_init__(self) -> None:
        problem = self.settings.problem()
        if problem:
            raise ValueError(problem)
        self._random = random.Random(self.settings.seed)
        self._prefix = secrets.token_hex(2)  # names of an earlier process must not come again

    async def run(self, asked: asyncio.Event) -> None:
        """Go on until asked to stop; what is there then stays."""
        loop = asyncio.get_running_loop()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, headers={"Content-Type": "application/json"}) as session:
            while not asked.is_set() and not await self._told(self._adopt(session, loop.time())):
                await _pause(asked, 1.0)
            due = loop.time()
            while not asked.is_set():
                await self._told(self._delete_due(session, loop.time()))
                if len(self.ends) < self.settings.pods_max:
                    await self._told(self._arrive(session, loop.time()))
                due = max(due + 1.0 / self.settings.rate, loop.time() - 1.0)  # a stall is not made up for
                await _pause(asked, due - loop.time())

    async def _told(self, step: Awaitable[None]) -> bool:
        """Whether it went well; the first of several failures in a row is logged."""
        try:
            await step
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not self._quiet:
                _log.warning(
                    "the API server cannot be used, trying on", extra={"url": self.settings.url, "error": str(error)}
                )
            self._quiet = True
            return False
        if self._quiet:
            _log.info("the API server can be used again", extra={"url": self.settings.url})
        self._quiet = False
        return True

    async def _adopt(self, session: aiohttp.ClientSession, now: float) -> None:
        async with session.get(self._path(), params={"labelSelector": LABEL}) as response:
            response.raise_for_status()
            found = msgspec.json.decode(await response.read())
        for pod in found["items"]:
            self.ends[pod["metadata"]["name"]] = now + self._stay()

    async def _delete_due(self, session: aiohttp.ClientSession, now: float) -> None:
        for name in [name for name, end in self.ends.items() if end <= now]:
            async with session.delete(f"{self._path()}/{name}") as response:
                if response.status != 404:  # a server that was started anew knows nothing of it
                    response.raise_for_status()
            del self.ends[name]

    async def _arrive(self, session: aiohttp.ClientSession, now: float) -> None:
        end = now + self._stay()
        for pod in self._next():
            async with session.post(self._path(), data=msgspec.json.encode(pod)) as response:
                response.raise_for_status()
            self.ends[pod["metadata"]["name"]] = end

    def _next(self) -> list[Json]:
        self._arrivals += 1
        name = f"{self._prefix}-{self._arrivals:05d}"
        if self._arrivals % GANG_EVERY == 0:
            return self._gang(f"train-{name}")
        weights = [each.weight for each in POD_CLASSES]
        (kind,) = self._random.choices(POD_CLASSES, weights)
        request = PodRequest(kind.cpu_milli, kind.memory_mib, kind.gpus, kind.gpu_milli)
        return [self._pod(f"job-{name}", request)]

    def _gang(self, name: str) -> list[Json]:
        marks = {"name": name, "min-available": str(GANG_MEMBERS), "total-number": str(GANG_MEMBERS)}
        annotations = {f"{_GANG}{key}": value for key, value in marks.items()}
        request = PodRequest(4_000, 16_384, 1)
        return [self._pod(f"{name}-{member}", request, annotations) for member in range(GANG_MEMBERS)]

    def _pod(self, name: str, request: PodRequest, annotations: dict[str, str] | None = None) -> Json:
        labels = {LABEL: "true"}
        return pod_manifest(
            name, request, namespace=self.settings.namespace, qos="LS", labels=labels, annotations=annotations
        )

    def _stay(self) -> float:
        return self._random.expovariate(1.0 / self.settings.stay_s)

    def _path(self) -> str:
        return f"{self.settings.url.rstrip('/')}/api/v1/namespaces/{self.settings.namespace}/pods"


async def _pause(asked: asyncio.Event, seconds: float) -> Any:
    try:
        return await asyncio.wait_for(asked.wait(), max(seconds, 0.0))
    except TimeoutError:
        return None
