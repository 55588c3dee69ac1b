"""The whole service between a real nats-server and the simulated API: what is planted is raised, nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from berth.auditor.settings import Settings
from berth.auditor.shell import BUSY_MESSAGES, CALM_S, Shell
from berth.bus import Bus, BusSettings, Write
from berth.bus.port import Committed, Message
from berth.contracts import names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.event import AuditReported
from berth.contracts.ledger import Allocation, Decision, DeviceGrant, Epoch, Plan, PlanStatus
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.kube import DEVICES, NODES, PODS, Kube, KubeSettings, resources
from berth.runtime import Context
from berth.runtime.clock import Clock, SystemClock
from berth.simcluster import SimCluster, SimSettings, serve
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually

Json = dict[str, Any]
FAST = {
    "audit_patience_s": 0.0,
    "audit_interval_s": 0.3,
    "audit_confirm_s": 0.1,
    "audit_settle_s": 0.5,
    "audit_share": 1.0,
    "lease_ttl_s": 2,
}


class World:
    """A cluster, a ledger, and what auditors say of them."""

    def __init__(self, nats: NatsServer, sim: SimCluster, kube: Kube, bus: Bus) -> None:
        self.nats = nats
        self.sim = sim
        self.kube = kube
        self.bus = bus
        self.events: list[tuple[str, AuditReported]] = []
        self.shells: list[Shell] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._open: list[Bus | Kube] = [bus, kube]
        self._sequences: dict[str, int] = {}

    async def auditor(self, instance: str = "one", clock: Clock | None = None, **settings: Any) -> Shell:
        bus = await Bus.connect(BusSettings(url=self.nats.url), service="auditor")
        kube = await Kube.connect(KubeSettings(url=self.sim.url))
        self._open += [bus, kube]
        chosen = Settings(**{**FAST, **settings})
        context = Context(service="auditor", settings=chosen, bus=bus, instance=instance, clock=clock or SystemClock())
        shell = Shell(context, kube)
        self.shells.append(shell)
        self._tasks.append(asyncio.create_task(shell.run()))
        return shell

    async def write_many(self, count: int) -> None:
        """So many messages of the ledger, in one batch."""
        plan = encode(Plan(id="p", status=PlanStatus.OPEN))
        keys = [subjects.plan_key(1, f"p{number}") for number in range(count)]
        outcome = await self.bus.ledger().commit([Write(key, plan, self._sequences.get(key, 0)) for key in keys])
        assert isinstance(outcome, Committed)
        first = outcome.sequence - count + 1
        self._sequences |= {key: first + number for number, key in enumerate(keys)}

    async def stop(self, index: int) -> None:
        self._tasks[index].cancel()
        await asyncio.gather(self._tasks[index], return_exceptions=True)

    async def listen(self) -> None:
        async def hear(message: Message) -> None:
            self.events.append((message.subject.split(".")[5], decode(message.data, AuditReported)))

        await self.bus.subscribe("berth.v1.evt.audit.>", hear)

    @property
    def reported(self) -> list[str]:
        return [f"{verb} {event.promise} {event.subject}" for verb, event in self.events]

    async def create(self, resource: Any, body: Json, namespace: str = "") -> Json:
        answer = await self.kube.create(resource, namespace, body)
        assert answer.ok, answer
        made: Json = msgspec.json.decode(answer.body)
        return made

    async def node(self, name: str = "n1") -> None:
        offered = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        await self.create(NODES, {"metadata": {"name": name}, "status": {"allocatable": offered}})
        resources_ = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "16Gi"}
        devices = [{"type": "gpu", "minor": minor, "health": True, "resources": resources_} for minor in (0, 1)]
        await self.create(DEVICES, {"metadata": {"name": name}, "spec": {"devices": devices}})

    async def pod(self, name: str, scheduler: str = names.SCHEDULER_NAME) -> Json:
        resources = {"cpu": "1", names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100"}
        containers = [{"name": "main", "image": "x", "resources": {"requests": resources, "limits": resources}}]
        body = {"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": containers}}
        return await self.create(PODS, body, "default")

    async def bind(self, pod: Json, minor: int, plan: str = "", node: str = "n1") -> None:
        note = '{"gpu":[{"minor":%d,"resources":{"%s":"100","%s":"100"}}]}' % (  # noqa: UP031
            minor,
            names.GPU_CORE,
            names.GPU_MEMORY_RATIO,
        )
        notes = {names.ANNOTATION_DEVICE_ALLOCATED: note} | ({names.ANNOTATION_PLAN: plan} if plan else {})
        meta = pod["metadata"]
        answer = await self.kube.bind(
            "default",
            meta["name"],
            uid=meta["uid"],
            version=meta["resourceVersion"],
            node=node,
            annotations=notes,
        )
        assert answer.ok, answer

    async def write(self, key: str, value: bytes | None) -> None:
        outcome = await self.bus.ledger().commit([Write(key, value, self._sequences.get(key, 0))])
        assert isinstance(outcome, Committed)
        self._sequences[key] = outcome.sequence

    async def decide(self, pod: Json, minor: int, plan: str) -> None:
        meta = pod["metadata"]
        part = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}
        decision = Decision(
            plan=plan,
            namespace="default",
            name=meta["name"],
            uid=meta["uid"],
            attempt=0,
            node="n1",
            pod_version=int(meta["resourceVersion"]),
            basis=0,
            allocation=Allocation(amounts={"cpu": 1000}, devices=[DeviceGrant(kind="gpu", minor=minor, amounts=part)]),
        )
        await self.write(subjects.EPOCH_KEY, encode(Epoch(epoch=1)))
        await self.write(subjects.decision_key(1, "default", meta["name"]), encode(decision))
        await self.write(subjects.plan_key(1, plan), encode(Plan(id=plan, status=PlanStatus.COMMITTED, decisions=1)))

    async def place(self, name: str, minor: int) -> Json:
        pod = await self.pod(name)
        await self.decide(pod, minor, f"plan-{name}")
        await self.bind(pod, minor, f"plan-{name}")
        return pod

    async def looks(self, count: int, index: int = 0) -> None:
        """So many more complete looks."""
        reconciler = self.shells[index].reconciler
        until = reconciler.looks + count
        await eventually(lambda: reconciler.looks >= until, what=f"{count} looks")

    async def status(self) -> StatusAnswer:
        raw = await self.bus.ask("berth.v1.svc.auditor.status", encode(StatusQuestion()))
        return decode(raw, StatusAnswer)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._open:
            await each.close()


class BusyClock(SystemClock):
    """In each second for which the auditor waits whether it is calm, it reads as much of the ledger as says: no."""

    def __init__(self, world: World) -> None:
        self.is_busy = True
        self.seconds = 0
        self._world = world

    async def sleep(self, seconds: float) -> None:
        if seconds != CALM_S:
            await super().sleep(seconds)
        elif self.is_busy:
            self.seconds += 1
            view = self._world.shells[0].ledger
            until = view.read + BUSY_MESSAGES
            await self._world.write_many(BUSY_MESSAGES)
            await eventually(lambda: view.read >= until, what="the auditor has read it")


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    async with serve(SimSettings(kubelet=None)) as sim:
        kube = await Kube.connect(KubeSettings(url=sim.url))
        bus = await Bus.connect(BusSettings(url=nats_server.url), service="tester")
        await bus.ensure()
        made = World(nats_server, sim, kube, bus)
        await made.listen()
        await made.node()
        yield made
        await made.close()


async def test_a_healthy_cluster_raises_nothing(world: World) -> None:
    await world.auditor()
    for number in range(3):
        name = f"p{number}"
        await world.place(name, number % 2)
        await world.looks(1)
        assert (await world.kube.delete(PODS, "default", name, grace_s=0)).ok
        await world.write(subjects.decision_key(1, "default", name), None)
    await world.looks(3)
    assert world.reported == []
    answer = await world.status()
    assert answer.active
    assert answer.facts["differences"] == 0
    assert answer.facts["trouble"] == "none"


async def test_a_pod_bound_by_a_foreign_hand_onto_a_taken_minor(world: World) -> None:
    await world.auditor()
    await world.place("ours", 0)
    await world.looks(2)
    await world.bind(await world.pod("theirs", "default-scheduler"), 0)
    await eventually(lambda: world.reported, what="the difference")
    await world.looks(3)
    assert world.reported == ["found I1 node n1, gpu 0"]
    assert "default/ours 100, default/theirs 100" in world.events[0][1].evidence
    assert (await world.status()).facts["about"] == "I1"
    assert (await world.kube.delete(PODS, "default", "theirs", grace_s=0)).ok
    await eventually(lambda: len(world.reported) == 2, what="that it is gone")
    assert world.reported[1] == "gone I1 node n1, gpu 0"


async def test_a_decision_whose_pod_vanished_but_stays(world: World) -> None:
    await world.auditor()
    await world.place("short", 0)
    assert (await world.kube.delete(PODS, "default", "short", grace_s=0)).ok
    await eventually(lambda: world.reported, what="the difference")
    assert world.reported == ["found I4 default/short"]
    await world.write(subjects.decision_key(1, "default", "short"), None)
    await eventually(lambda: len(world.reported) == 2, what="that it is gone")
    assert world.reported[1] == "gone I4 default/short"


async def test_a_node_that_reports_a_device_in_use_twice(world: World) -> None:
    await world.auditor()
    for name, minor in (("a", 0), ("b", 1)):
        await world.place(name, minor)
    uses = [
        {"namespace": "default", "name": name, "podUsage": {"devices": [{"type": "gpu", "minor": 0}]}}
        for name in ("a", "b")
    ]
    made = await world.create(resources.NODE_METRICS, {"metadata": {"name": "n1"}, "spec": {}})
    status = {"status": {"updateTime": "2099-01-01T00:00:00Z", "podsMetric": uses}}
    answer = await world.kube.patch(resources.NODE_METRICS, "", "n1", status, subresource="status")
    assert answer.ok, (answer, made)
    await eventually(lambda: len(world.reported) == 2, what="the differences")
    await world.looks(2)
    assert sorted(world.reported) == ["found I1c node n1, gpu 0", "found I1d node n1, gpu 0, default/b"]


async def test_a_look_that_is_not_whole_changes_nothing(world: World) -> None:
    shell = await world.auditor()
    await world.place("ours", 0)
    await world.bind(await world.pod("theirs", "default-scheduler"), 0)
    await eventually(lambda: world.reported, what="the difference")
    await world.sim.stop()
    await eventually(lambda: "pods: 0" in (shell._trouble), what="the trouble")
    answer = await world.status()
    assert "pods: 0" in str(answer.facts["trouble"])
    assert answer.facts["differences"] == 1
    assert world.reported == ["found I1 node n1, gpu 0"]
    await world.sim.start()


async def test_a_standby_goes_on(world: World) -> None:
    await world.auditor("one")
    await world.looks(1)
    second = await world.auditor("two")
    await eventually(lambda: second.ledger.is_known, what="the standby has read the ledger")
    assert second.reconciler.looks == 0
    await world.stop(0)
    await world.looks(1, 1)
    await world.place("ours", 0)
    await world.bind(await world.pod("theirs", "default-scheduler"), 0)
    await eventually(lambda: world.reported == ["found I1 node n1, gpu 0"], what="its word")


async def test_a_look_gives_way_while_many_decisions_are_made(world: World) -> None:
    clock = BusyClock(world)
    shell = await world.auditor(clock=clock, audit_patience_s=3600.0)
    await eventually(lambda: clock.seconds >= 4, what="some busy seconds")
    assert shell.reconciler.looks == 0
    clock.is_busy = False
    await world.looks(1)


async def test_too_many_objects_are_refused_by_the_name_of_the_setting(world: World) -> None:
    shell = await world.auditor(audit_objects_max=1)
    await world.place("a", 0)
    await world.place("b", 1)
    await eventually(lambda: "BERTH_AUDIT_OBJECTS_MAX=1" in shell._trouble, what="the refusal")
    assert world.reported == []
