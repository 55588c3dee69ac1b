"""The plugin at work, with a handler that answers as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
from prometheus_client import REGISTRY

from berth.nri import Creation, Event, Fault, Handler, Plugin, PluginSettings, Runtime, Update
from berth.nri import api_pb2 as api
from berth.testing.nri_runtime import FakeRuntime, PluginPeer

POD = api.PodSandbox(id="pod", name="web", namespace="shop", uid="u1")
CONTAINER = api.Container(id="ctr", name="main", env=["TOKEN=hunter2"])


class Told(Handler):
    """Remembers its calls and answers as the test wants."""

    def __init__(self) -> None:
        self.configs: list[tuple[Runtime, str]] = []
        self.parts: list[tuple[list[str], bool]] = []
        self.events: list[tuple[Event, str, str]] = []
        self.limits: list[tuple[str, str]] = []
        self.pods: list[str] = []
        self.faults: list[Fault] = []
        self.pause_s = 0.0
        self.error: Exception | None = None
        self.creation = Creation()
        self.updates: tuple[Update, ...] = ()
        self.refusal = ""
        self.at_once = 0
        self.most_at_once = 0

    async def _answering(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.pause_s)
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error

    async def configured(self, runtime: Runtime, config: str) -> None:
        self.configs.append((runtime, config))

    async def synchronize(self, part: api.SynchronizeRequest) -> Sequence[Update]:
        self.parts.append(([each.id for each in part.containers], part.more))
        await self._answering()
        return self.updates

    async def create_container(self, pod: api.PodSandbox, container: api.Container) -> Creation:
        await self._answering()
        return self.creation

    async def update_container(
        self, pod: api.PodSandbox, container: api.Container, resources: api.LinuxResources
    ) -> Sequence[Update]:
        self.limits.append((container.id, resources.cpu.cpus))
        return self.updates

    async def stop_container(self, pod: api.PodSandbox, container: api.Container) -> Sequence[Update]:
        return self.updates

    async def update_pod(self, request: api.UpdatePodSandboxRequest) -> None:
        self.pods.append(request.pod.id)

    async def happened(self, event: Event, pod: api.PodSandbox, container: api.Container) -> None:
        await self._answering()
        self.events.append((event, pod.id, container.id))

    async def validate(self, request: api.ValidateContainerAdjustmentRequest) -> str:
        return self.refusal

    async def disconnected(self, fault: Fault) -> None:
        self.faults.append(fault)


def settings(socket: Path, **more: object) -> PluginSettings:
    """Deadlines that a test can wait for."""
    values = {
        "name": "berth",
        "index": "10",
        "socket": str(socket),
        "register_s": 0.5,
        "synchronize_s": 0.5,
        "call_s": 0.5,
        "pause_first_s": 0.02,
        "pause_most_s": 0.05,
        **more,
    }
    return msgspec.convert(values, PluginSettings)


@contextlib.asynccontextmanager
async def running(runtime: FakeRuntime, handler: Handler, **more: object) -> AsyncIterator[Plugin]:
    plugin = Plugin(settings(runtime.socket, **more), handler)
    task = asyncio.create_task(plugin.run())
    try:
        yield plugin
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it, five seconds at most."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def ready(runtime: FakeRuntime) -> PluginPeer:
    """The plugin as the runtime sees it, once it is registered."""
    peer = await runtime.plugin()
    await peer.ready()
    return peer


def counted(name: str, **labels: str) -> float:
    """What a metric says."""
    return REGISTRY.get_sample_value(name, labels) or 0.0
