"""A watcher between a real nats-server and the simulated API, and a follower that checks what it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from berth.bus import Bus, BusSettings, Entry
from berth.cluster_watcher.settings import Settings
from berth.cluster_watcher.shell import Shell
from berth.contracts import buckets, state
from berth.contracts.codec import decode
from berth.contracts.question import StatusAnswer
from berth.contracts.subjects import question_subject
from berth.kube import NODES, PODS, Kube, KubeSettings, Resource
from berth.runtime import Context
from berth.simcluster import SimCluster, SimSettings, serve
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually
from berth.transaction.completeness import Completeness


class Cluster:
    """STATE as a follower of the protocol sees it. Raises when a key's version goes down."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.traces: dict[str, str | None] = {}
        self.markers: list[state.Synced] = []
        self.complete = {"pods": Completeness(), "reservations": Completeness(), "nodes": Completeness()}
        self.entries = 0
        self.resets = 0
        self.went_back: list[tuple[str, int, int]] = []

    def reset(self) -> None:
        self.resets += 1
        self.values.clear()
        self.versions.clear()
        self.markers.clear()
        for each in self.complete.values():
            each.reset()

    def apply(self, entry: Entry) -> None:
        self.entries += 1
        if entry.gap:
            for each in self.complete.values():
                each.gap()
        kind, _, rest = entry.key.partition(".")
        if kind == "synced":
            marker = decode(entry.value, state.Synced)
            assert marker.kind == rest
            self.markers.append(marker)
            if rest in self.complete:
                self.complete[rest].marked(marker.version, marker.complete)
            return
        version = int(entry.value) if entry.deleted else msgspec.json.decode(entry.value)["version"]
        if version < self.versions.get(entry.key, 0):
            self.went_back.append((entry.key, self.versions[entry.key], version))
        self.versions[entry.key] = version
        if f"{kind}s" in self.complete:
            self.complete[f"{kind}s"].seen(version)
        if entry.deleted:
            self.values.pop(entry.key, None)
        else:
            self.values[entry.key] = entry.value
            self.traces[entry.key] = entry.traceparent

    def end(self, sequence: int) -> None:
        for each in self.complete.values():
            each.end()

    def pod(self, name: str, namespace: str = "default") -> state.Pod | None:
        value = self.values.get(f"pod.{namespace}.{name}")
        return None if value is None else decode(value, state.Pod)

    @property
    def pods(self) -> set[str]:
        return {key.rpartition(".")[2] for key in self.values if key.startswith("pod.")}


class World:
    """Everything a test touches, and how to make more of it."""

    def __init__(self, nats: NatsServer, sim: SimCluster, kube: Kube, bus: Bus) -> None:
        self.nats = nats
        self.sim = sim
        self.kube = kube
        self.bus = bus
        self.cluster = Cluster()
        self.shells: list[Shell] = []
        self._buses = [bus]
        self._kubes = [kube]
        self._tasks: list[asyncio.Task[None]] = [asyncio.create_task(bus.follow(buckets.STATE, self.cluster).run())]

    async def watcher(self, instance: str = "w1", **settings: Any) -> tuple[Shell, asyncio.Task[None]]:
        """Start one more replica."""
        bus = await self.connect(instance)
        kube = await Kube.connect(KubeSettings(url=self.sim.url))
        self._kubes.append(kube)
        chosen = Settings(**{"relist_pause_s": 0.2, "lease_ttl_s": 2} | settings)
        shell = Shell(Context(service="cluster-watcher", settings=chosen, bus=bus, instance=instance), kube)
        task = asyncio.create_task(shell.run())
        self._tasks.append(task)
        self.shells.append(shell)
        return shell, task

    async def connect(self, name: str) -> Bus:
        bus = await Bus.connect(BusSettings(url=self.nats.url), service=name)
        self._buses.append(bus)
        return bus

    async def restart_api(self, **settings: Any) -> None:
        """Another API server on the same port: its objects are gone, versions go on."""
        port = self.sim.port
        await self.sim.stop()
        self.sim = SimCluster(SimSettings(**{"bookmark_s": 0.2, "kubelet": None, "port": port} | settings))
        await self.sim.start()

    async def create_pod(self, name: str, **more: Any) -> int:
        return version_of(await self.kube.create(PODS, "default", pod(name, **more)))

    async def delete_pod(self, name: str) -> None:
        answer = await self.kube.delete(PODS, "default", name, grace_s=0)
        assert answer.ok, answer

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> int:
        return version_of(await self.kube.create(resource, namespace, body))

    async def create_node(self, name: str) -> int:
        allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}
        return await self.create(NODES, "", body)

    async def status(self) -> StatusAnswer:
        return decode(await self.bus.ask(question_subject("cluster-watcher", "status"), b"{}"), StatusAnswer)

    def complete_markers(self, kind: str) -> list[int]:
        """Versions of the markers that say a kind is complete."""
        return [marker.version for marker in self.cluster.markers if marker.kind == kind and marker.complete]

    async def synced(self) -> None:
        """Wait until every kind has been marked complete."""
        await eventually(
            lambda: all(
                any(marker.kind == kind and marker.complete for marker in self.cluster.markers)
                for kind in ("pods", "nodes", "reservations", "devices", "elasticquotas")
            ),
            what=f"markers: {self.cluster.markers}",
        )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for kube in self._kubes:
            await kube.close()
        for bus in self._buses:
            await bus.close()
        await self.sim.stop()
        for result in results:
            if isinstance(result, Exception):
                raise result


def version_of(answer: Any) -> int:
    assert answer.ok, answer
    return int(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"])


def pod(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container], "schedulerName": "berth-scheduler", **spec},
    }


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    """One of each, no watcher yet."""
    async with serve(SimSettings(bookmark_s=0.2, kubelet=None)) as sim:
        kube = await Kube.connect(KubeSettings(url=sim.url))
        bus = await Bus.connect(BusSettings(url=nats_server.url), service="tester")
        await bus.ensure()
        made = World(nats_server, sim, kube, bus)
        yield made
        await made.close()


@pytest.fixture
def patched() -> Callable[..., Awaitable[None]]:
    """Merge a patch into a pod."""

    async def patch(world: World, name: str, body: dict[str, Any]) -> None:
        answer = await world.kube.patch(PODS, "default", name, body)
        assert answer.ok, answer

    return patch
