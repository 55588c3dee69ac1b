"""The API, the bus, STATE's mirror, solvers and writers; and what has to hold of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import msgspec
from tests.services.worlds.writer.mirror import Mirror
from tests.services.worlds.writer.objects import new_node, new_pod, pod_path, read
from tests.services.worlds.writer.plain_solver import PlainSolver

from berth.bus import Bus, BusSettings
from berth.cluster_writer.settings import Settings
from berth.cluster_writer.shell import main
from berth.contracts import buckets, names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import PlacementBound
from berth.runtime import Context
from berth.simcluster import Fault, SimCluster
from berth.simcluster.store import Path
from berth.simcluster.store.collection import Event
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually, eventually_async
from berth.transaction.book import FINISHED_PHASES

DEADLINE_S = 30.0
LEASE = Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer")


class Replica:
    """One writer in this process."""

    def __init__(self, bus: Bus, context: Context[Settings], task: asyncio.Task[None]) -> None:
        self.bus = bus
        self.context = context
        self.task = task


class World:
    """The API, the bus, STATE's mirror, solvers and writers; and what has to hold of them."""

    def __init__(self, nats: NatsServer, sim: SimCluster) -> None:
        self.nats = nats
        self.sim = sim
        self.replicas: list[Replica] = []
        self.reported: list[PlacementBound] = []
        self.bound: dict[str, list[tuple[str, str]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._buses: list[Bus] = []
        sim.store.listen(self._watch_binds)

    async def begin(self) -> None:
        self.sim.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}}])
        self.bus = await self.connect("test")
        await self.bus.ensure()
        self.mirror = Mirror(self.bus, self.sim.store)
        self.spawn(
            self.bus.consume(
                "test-events", self._hear, subjects="berth.v1.evt.placement.bound.>", stream=buckets.EVENTS
            ).run()
        )
        await self.mirror.owned.ready()
        self.mirror.mark()

    async def end(self) -> None:
        for replica in list(self.replicas):
            await self.stop(replica)
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        for bus in self._buses:
            await bus.close()
        self.check()

    async def connect(self, service: str) -> Bus:
        bus = await Bus.connect(BusSettings(url=self.nats.url, reconnect_max_s=0.2), service=service)
        self._buses.append(bus)
        return bus

    def spawn(self, run: Awaitable[Any]) -> asyncio.Task[Any]:
        self._tasks.append(asyncio.ensure_future(run))
        return self._tasks[-1]

    def nodes(self, count: int, *, cpu: int) -> list[str]:
        names_ = [f"n{i}" for i in range(count)]
        self.sim.load([new_node(name, cpu=str(cpu)) for name in names_])
        return names_

    async def solver(self, nodes: int = 2, *, cpu: int = 16, gpus: int = 4, **more: Any) -> PlainSolver:
        """Nodes in the cluster, and a solver that knows them."""
        known = dict.fromkeys(self.nodes(nodes, cpu=cpu), (cpu * 1000, gpus))
        self.mirror.give_cards(dict.fromkeys(known, gpus))
        bus = await self.connect("placement-solver")
        solver = PlainSolver(bus, known, **more)
        self.spawn(solver.run())
        return solver

    async def writer(self, instance: str = "w1", **settings: Any) -> Replica:
        bus = await self.connect("cluster-writer")
        # The cards of plain solvers are of no vendor that something could be handed to.
        chosen = Settings(**({"kube_url": self.sim.url, "events_per_s": 0.0, "hand_off": ()} | settings))
        context = Context(
            service="cluster-writer", settings=chosen, bus=bus, instance=instance, random=random.Random(instance)
        )
        replica = Replica(bus, context, asyncio.create_task(main(context)))
        self.replicas.append(replica)
        return replica

    def pod(self, name: str, **spec: Any) -> None:
        self.sim.load([new_pod(name, **spec)])

    def delete(self, name: str) -> None:
        assert self.sim.store.delete(pod_path(name), grace="0").status == 200

    def bind_elsewhere(self, name: str, node: str) -> None:
        """Another scheduler binds it."""
        reply = self.sim.store.bind(
            "default", name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        )
        assert reply.status == 201, reply

    async def stop(self, replica: Replica) -> None:
        """As SIGTERM does: the Lease is given back."""
        self.replicas.remove(replica)
        left = await replica.context.supervisor.stop(replica.task, 5.0)
        assert not left, left
        results = await asyncio.gather(replica.task, return_exceptions=True)
        await replica.bus.close()
        for error in (replica.context.supervisor.failure, *results):
            if isinstance(error, Exception):
                raise error

    async def kill(self, replica: Replica) -> None:
        """As kill -9 does: nothing is given back, and nothing more is sent. Its Lease then is made to look expired."""
        self.replicas.remove(replica)
        with contextlib.suppress(Exception):
            await replica.bus.close()
        faults = self.sim.faults.rules
        self.sim.faults.set((Fault(kind="drop-before"),))
        await replica.context.supervisor.stop(replica.task, 2.0)
        await asyncio.gather(replica.task, return_exceptions=True)
        self.sim.faults.set(faults)
        self.free_lease()

    def free_lease(self, holder: str = "") -> None:
        """Whoever holds the Lease holds it no longer."""
        self.sim.store.patch(LEASE, {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 60}})

    def lease(self) -> dict[str, Any] | None:
        return read(self.sim.store, LEASE)

    @property
    def epoch(self) -> int:
        lease = self.lease()
        notes = (lease or {"metadata": {}})["metadata"].get("annotations", {})
        return int(notes.get(names.ANNOTATION_EPOCH, 0))

    @property
    def pods(self) -> dict[str, dict[str, Any]]:
        listed = msgspec.json.decode(self.sim.store.list(Path("", "v1", "pods")).body)["items"]
        return {pod["metadata"]["name"]: pod for pod in listed}

    async def begun(self) -> None:
        """The first epoch is there: Lease, fences and entry."""

        async def is_written() -> bool:
            return await self.bus.ledger().read(subjects.EPOCH_KEY) is not None

        await eventually_async(is_written)

    def is_bound(self, *pods: str) -> bool:
        known = self.pods
        return all(known[name]["spec"].get("nodeName") for name in pods)

    def nodes_of(self, *pods: str) -> list[str]:
        known = self.pods
        return [known[name]["spec"].get("nodeName", "") for name in pods]

    async def all_bound(self, deadline_s: float = DEADLINE_S) -> None:
        await eventually(lambda: self.is_bound(*self.pods), what="every pod bound", deadline_s=deadline_s)

    def check(self) -> None:
        """No core and no minor is given twice, at the end and at every bind."""
        used: dict[str, int] = {}
        minors: Counter[tuple[str, int]] = Counter()
        for pod in self.pods.values():
            node = pod["spec"].get("nodeName", "")
            if not node or pod.get("status", {}).get("phase") in FINISHED_PHASES:
                continue
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            used[node] = used.get(node, 0) + int(requests["cpu"])
            notes = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_DEVICE_ALLOCATED, "{}")
            minors.update((node, device["minor"]) for device in msgspec.json.decode(notes).get("gpu", []))
        assert not [each for each, count in minors.items() if count > 1], minors
        for node, cores in used.items():
            known = read(self.sim.store, Path("", "v1", "nodes", "", node))
            assert known is None or cores <= int(known["status"]["allocatable"]["cpu"]), (node, cores)

    def _watch_binds(self, event: Event) -> None:
        if event.resource.plural != "pods" or event.kind == "DELETED":
            return
        node = event.obj.data["spec"].get("nodeName", "")
        before = event.prev.data["spec"].get("nodeName", "") if event.prev else ""
        if node and not before:
            plan = (event.obj.meta.get("annotations") or {}).get(names.ANNOTATION_PLAN, "")
            self.bound.setdefault(event.obj.meta["name"], []).append((node, plan))

    async def _hear(self, message: Any) -> None:
        with contextlib.suppress(InvalidMessage):
            self.reported.append(decode(message.data, PlacementBound))
