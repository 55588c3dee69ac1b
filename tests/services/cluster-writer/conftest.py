"""A writer between a real nats-server and the simulated API, with a mirror that plays cluster-watcher."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from berth.bus import Bus, BusSettings
from berth.bus.port import Committed, Entry
from berth.bus.port import Write as BusWrite
from berth.cluster_watcher.core.nodes import node_of
from berth.cluster_watcher.core.pod_groups import pod_group_of
from berth.cluster_watcher.core.pods import PodItem, pod_of
from berth.cluster_watcher.core.reservations import ReservationItem, reservation_of
from berth.cluster_writer.settings import Settings
from berth.cluster_writer.shell import main
from berth.contracts import buckets, kube, names, state, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.errors import Broken
from berth.contracts.event import PlacementBound
from berth.contracts.ledger import Allocation, Decision, DeviceGrant, Plan, PlanStatus
from berth.kube.answer import Answer, answer_of
from berth.kube.bodies import Patch
from berth.runtime import Context
from berth.simcluster import Fault, SimCluster, SimSettings, Store, serve
from berth.simcluster.store import ListOptions, Path
from berth.simcluster.store.collection import Event
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually, eventually_async
from berth.transaction.batch import plan_batch
from berth.transaction.book import FINISHED_PHASES, Book

DEADLINE_S = 30.0
LEASE = Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer")
GPU_NAMES = (names.GPU_CORE, names.GPU_MEMORY_RATIO)
DEVICE_NAMES = frozenset(GPU_NAMES)
_READ = {
    "podgroups": (msgspec.json.Decoder(kube.PodGroup), pod_group_of),
    "pods": (msgspec.json.Decoder(PodItem), pod_of),
    "nodes": (msgspec.json.Decoder(kube.Node), node_of),
    "reservations": (msgspec.json.Decoder(ReservationItem), reservation_of),
}


# --- objects ---


def new_pod(
    name: str, *, cpu: str = "1", gpus: int = 0, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    devices = {each: str(gpus * 100) for each in GPU_NAMES} if gpus else {}
    resources = {"requests": {"cpu": cpu} | devices, "limits": devices}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "schedulerName": names.SCHEDULER_NAME,
            **spec,
        },
    }


def new_node(name: str, *, cpu: str = "16", pods: str = "110") -> dict[str, Any]:
    amounts = {"cpu": cpu, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def new_reservation(name: str, *, cpu: str = "2") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {"template": new_pod("x", cpu=cpu), "owners": [{"labelSelector": {}}], "ttl": "1h"},
    }


def pod_path(name: str, namespace: str = "default") -> Path:
    return Path("", "v1", "pods", namespace, name)


def read(store: Store, path: Path) -> dict[str, Any] | None:
    reply = store.get(path)
    return msgspec.json.decode(reply.body) if reply.status == 200 else None


# --- the simulated API without HTTP ---


class StoreApi:
    """`KubeApi` on a store, with a script: `on(verb, action)` makes the next such call do something else first.

    An action gets the request's arguments; an Answer that it returns is the answer, None lets the call go on.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        self._script: dict[str, list[Callable[..., Any]]] = {}

    def on(self, verb: str, *actions: Callable[..., Any]) -> None:
        self._script.setdefault(verb, []).extend(actions)

    def _before(self, verb: str, *args: Any) -> Answer | None:
        self.calls[verb] += 1
        actions = self._script.get(verb)
        return actions.pop(0)(*args) if actions else None

    async def _do(self, verb: str, args: Sequence[Any], effect: Callable[[], Any]) -> Answer:
        await asyncio.sleep(0)
        told = self._before(verb, *args)
        if told is not None:
            return told
        reply = effect()
        return answer_of(reply.status, bytes(reply.body), "", None)

    # What the cluster holds, and what STATE would say of it.

    def pod(self, name: str, **spec: Any) -> state.Pod:
        assert self.store.create(Path("", "v1", "pods", "default"), new_pod(name, **spec)).status == 201
        return self.seen(name)

    def node(self, name: str, **amounts: str) -> state.Node:
        reply = self.store.create(Path("", "v1", "nodes"), new_node(name, **amounts))
        assert reply.status == 201
        item = msgspec.json.decode(reply.body, type=kube.Node)
        return node_of(item, int(item.metadata.resource_version))

    def reservation(self, name: str, **amounts: str) -> state.Reservation:
        body = new_reservation(name, **amounts)
        group, version = body["apiVersion"].split("/")
        reply = self.store.create(Path(group, version, "reservations"), body)
        assert reply.status == 201, reply
        return self.seen_reservation(name)

    def seen(self, name: str) -> state.Pod:
        item = msgspec.json.decode(self.store.get(pod_path(name)).body, type=PodItem)
        return pod_of(item, int(item.metadata.resource_version))

    def seen_reservation(self, name: str) -> state.Reservation:
        path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", name)
        item = msgspec.json.decode(self.store.get(path).body, type=ReservationItem)
        return reservation_of(item, int(item.metadata.resource_version))

    def raw(self, name: str) -> dict[str, Any] | None:
        return read(self.store, pod_path(name))

    def touch(self, name: str) -> None:
        """Somebody changes a label: the version moves on."""
        reply = self.store.patch(pod_path(name), {"metadata": {"labels": {"touched": str(self.store.version)}}})
        assert reply.status == 200

    def delete(self, name: str) -> None:
        assert self.store.delete(pod_path(name), grace="0").status == 200

    async def page(self, selection: Any, *, limit: int, token: str = "") -> Answer:
        path = self._path(selection.resource, selection.namespace)
        return await self._do(
            "list", [selection], lambda: self.store.list(path, ListOptions(limit=str(limit), token=token))
        )

    async def get(self, resource: Any, namespace: str, name: str) -> Answer:
        return await self._do("get", [name], lambda: self.store.get(self._path(resource, namespace, name)))

    async def create(self, resource: Any, namespace: str, body: Any, *, field_manager: str = "") -> Answer:
        return await self._do("create", [body], lambda: self.store.create(self._path(resource, namespace), body))

    async def patch(
        self,
        resource: Any,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: Patch = Patch.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Answer:
        path = self._path(resource, namespace, name, subresource)
        verb = f"patch {subresource}".strip()
        return await self._do(verb, [name, body], lambda: self.store.patch(path, body, content_type.value))

    async def bind(
        self, namespace: str, name: str, *, uid: str, version: str, node: str, annotations: Mapping[str, str]
    ) -> Answer:
        body = {
            "metadata": {"name": name, "uid": uid, "resourceVersion": version, "annotations": dict(annotations)},
            "target": {"kind": "Node", "name": node},
        }
        return await self._do("bind", [name], lambda: self.store.bind(namespace, name, body))

    async def evict(self, namespace: str, name: str, *, uid: str, grace_s: int | None = None) -> Answer:
        body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": uid}}}
        return await self._do("evict", [name], lambda: self.store.evict(namespace, name, body))

    def _path(self, resource: Any, namespace: str, name: str = "", subresource: str = "") -> Path:
        return Path(resource.group, resource.version, resource.plural, namespace, name, subresource)


# --- STATE ---


def state_message(event: Event) -> tuple[str, bytes | None]:
    """The key and the bytes that STATE has for a change; None and a tombstone for a deletion."""
    plural = event.resource.plural
    decoder, convert = _READ[plural]
    item = decoder.decode(event.obj.raw)
    meta = item.metadata
    key = subjects.key(plural[:-1], *([meta.namespace] if meta.namespace else []), meta.name)
    return key, None if event.kind == "DELETED" else encode(convert(item, event.version))


class Mirror:
    """Writes what happens to pods, nodes and Reservations into STATE, unless it is held back."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self._bus = bus
        self.store = store
        self.owned = bus.owned(buckets.STATE, on_reset=self.relist)
        self.relists = 0
        self._held: list[Event] | None = None
        store.listen(self._see)

    def hold(self) -> None:
        """STATE stands still from now on."""
        self._held = []

    def release(self) -> None:
        """Write what was held back."""
        held, self._held = self._held or [], None
        for event in held:
            self._see(event)

    def mark(self, *, complete: bool = True) -> None:
        """All kinds are complete through now."""
        for kind in _READ:
            marker = state.Synced(kind=kind, version=self.store.version, complete=complete)
            self.owned.put(subjects.synced_key(kind), encode(marker))

    def relist(self) -> None:
        """STATE was lost, or its tail: everything is written again between two markers."""
        self.relists += 1
        self.mark(complete=False)
        for collection in list(self.store.state.collections.values()):
            if collection.resource.plural in _READ:
                for obj in collection.items.values():
                    self._see(Event(collection.resource, "MODIFIED", obj, None))
        self.mark()

    def _see(self, event: Event) -> None:
        if event.resource.plural not in _READ:
            return
        if self._held is not None:
            self._held.append(event)
            return
        key, value = state_message(event)
        if value is None:
            self.owned.delete(key, str(event.version).encode())
        else:
            self.owned.put(key, value)


# --- a solver that only knows cpu and whole GPUs ---


class PlainSolver:
    """Decides every pending pod by first fit, by the rules of the protocol. `nodes`: name -> (milli cores, GPUs)."""

    def __init__(self, bus: Bus, nodes: dict[str, tuple[int, int]], seed: int = 1, *, window: int = 8) -> None:
        self.book = Book(DEVICE_NAMES)
        self.nodes = nodes
        self.plans: list[str] = []
        self.stopped = False
        self._bus = bus
        self._random = random.Random(seed)
        self._window = window
        self._wake = asyncio.Event()
        self._needs = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._bus.follow(buckets.STATE, _StateSink(self)).run())
            group.create_task(self._bus.follow(buckets.LEDGER, _LedgerSink(self)).run())
            group.create_task(self._rounds())

    def may_plan(self) -> bool:
        epoch, pods = self.book.ledger.epoch, self.book.complete["pods"]
        read = pods.is_known and pods.version >= epoch.pods_version and self.book.ledger.sequence >= self._needs
        return epoch.epoch > 0 and read and not self.stopped

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._wake.wait()
            self._wake.clear()
            if self.may_plan() and (decisions := self._decide()):
                await self._commit(decisions)
            await self._tidy()

    def _decide(self) -> list[Decision]:
        plan = f"{self._random.getrandbits(96):024x}"
        taken: list[Decision] = []
        for name, pod in sorted(self.book.pods.items()):
            ended = pod.phase in FINISHED_PHASES
            if pod.node or pod.deleting or ended or self.book.open_decision(name) or len(taken) == self._window:
                continue
            if pod.template.scheduler != names.SCHEDULER_NAME:
                continue
            if found := self._place(pod, plan, taken):
                taken.append(found)
        return taken

    def _place(self, pod: state.Pod, plan: str, taken: Iterable[Decision]) -> Decision | None:
        gpus = pod.template.requests.get(names.GPU_CORE, 0) // 100
        for node, (cpu, devices) in self.nodes.items():
            claims = list(self.book.claims_on(node))
            mine = [each for each in taken if each.node == node]
            used = sum(c.amounts.get("cpu", 0) for c in claims) + sum(d.allocation.amounts["cpu"] for d in mine)
            minors = {g.minor for c in claims for g in c.devices} | {
                g.minor for d in mine for g in d.allocation.devices
            }
            free = [minor for minor in range(devices) if minor not in minors][:gpus]
            if used + pod.template.requests["cpu"] > cpu or len(free) < gpus:
                continue
            return make_decision(pod, plan, node, minors=free, basis=self.book.complete["pods"].version)
        return None

    async def _commit(self, decisions: list[Decision]) -> None:
        entry = Plan(id=decisions[0].plan, status=PlanStatus.COMMITTED, decisions=len(decisions))
        writes = plan_batch(self.book.ledger, entry, decisions, {})
        result = await self._bus.ledger().commit([BusWrite(*write) for write in writes])
        if isinstance(result, Committed):
            self.plans.append(entry.id)
            self._needs = result.sequence
            return
        with contextlib.suppress(Exception):
            answers = [(write.key, await self._bus.ledger().read(write.key)) for write in writes]
            for key, stored in answers:
                if stored is None:
                    self.book.ledger.learn(key, 0)

    async def _tidy(self) -> None:
        """Every second settled decision is deleted, so that both kinds are met."""
        names_ = [n for n, held in self.book.ledger.decisions.items() if self.book.is_settled(held.decision)][::2]
        if self.may_plan() and names_:
            epoch = self.book.ledger.epoch.epoch
            keys = [subjects.decision_key(epoch, *name) for name in names_[:50]]
            await self._bus.ledger().commit([BusWrite(key, None, self.book.ledger.expected(key)) for key in keys])


def make_decision(
    pod: state.Pod, plan: str, node: str, *, minors: Iterable[int] = (), basis: int = 0, **more: Any
) -> Decision:
    """The decision of a plan for a pod, with the annotations of its bind."""
    grants = [DeviceGrant(kind="gpu", minor=minor, amounts=dict.fromkeys(GPU_NAMES, 100)) for minor in minors]
    notes = {names.ANNOTATION_PLAN: plan}
    if grants:
        listed = [{"minor": g.minor, "resources": {k: str(v) for k, v in g.amounts.items()}} for g in grants]
        notes[names.ANNOTATION_DEVICE_ALLOCATED] = msgspec.json.encode({"gpu": listed}).decode()
    fields = {
        "plan": plan,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "attempt": pod.attempt,
        "node": node,
        "pod_version": pod.version,
        "basis": basis,
        "allocation": Allocation(amounts=pod.template.requests, devices=grants),
        "accounts": [subjects.node_account(node)],
        "annotations": notes,
    }
    return Decision(**(fields | more))


class _StateSink:
    def __init__(self, solver: PlainSolver) -> None:
        self._solver = solver

    def reset(self) -> None:
        self._solver.book.reset_state()

    def apply(self, entry: Entry) -> None:
        book = self._solver.book
        if entry.gap:
            for tracker in book.complete.values():
                tracker.gap()
        kind, _, rest = entry.key.partition(".")
        if kind == "synced":
            marker = decode(entry.value, state.Synced)
            if marker.kind in book.complete:
                book.complete[marker.kind].marked(marker.version, marker.complete)
        elif kind == "pod":
            name = subjects.parts(rest)
            pod = None if entry.deleted else decode(entry.value, state.Pod)
            book.complete["pods"].seen(pod.version if pod else int(entry.value))
            book.see_pod((name[0], name[1]), pod)
        self._solver._wake.set()

    def end(self, sequence: int) -> None:
        for tracker in self._solver.book.complete.values():
            tracker.end()
        self._solver.book.settle_waiting()
        self._solver._wake.set()


class _LedgerSink:
    def __init__(self, solver: PlainSolver) -> None:
        self._solver = solver

    def reset(self) -> None:
        self._solver._needs = 0
        self._solver.book.reset_ledger()

    def apply(self, entry: Entry) -> None:
        self._solver.book.read_ledger(entry.key, entry.value, entry.deleted, entry.sequence)
        self._solver._wake.set()

    def end(self, sequence: int) -> None:
        self._solver._wake.set()


# --- the whole ---


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
        self.told: list[PlacementBound] = []
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
        bus = await self.connect("placement-solver")
        solver = PlainSolver(bus, known, **more)
        self.spawn(solver.run())
        return solver

    async def writer(self, instance: str = "w1", **settings: Any) -> Replica:
        bus = await self.connect("cluster-writer")
        chosen = Settings(**({"kube_url": self.sim.url, "events_per_s": 0.0} | settings))
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
        with contextlib.suppress(Broken):
            self.told.append(decode(message.data, PlacementBound))


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    async with serve(SimSettings(bookmark_s=0.5, kubelet=None)) as cluster:
        yield cluster


@pytest.fixture
async def world(nats_server: NatsServer, sim: SimCluster) -> AsyncIterator[World]:
    world = World(nats_server, sim)
    await world.begin()
    yield world
    await world.end()


@pytest.fixture
def api() -> StoreApi:
    """The simulated API as plain calls, with every CRD."""
    return StoreApi(SimCluster(SimSettings(kubelet=None)).store)


@pytest.fixture
def decide() -> Callable[..., Decision]:
    """Makes decisions: `decide(pod, plan, node, minors=..., basis=...)`."""
    return make_decision
