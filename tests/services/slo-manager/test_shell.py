"""The service on a real nats-server: what it publishes, asks for and answers, alone and beside a standby."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.services.turns import Turns

from berth.bus import Bus, BusSettings
from berth.bus.port import Message
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.command import ApplyObject
from berth.contracts.event import ObjectRefused
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.slo import NodeSLO
from berth.contracts.state import ConfigMap, Node, Synced
from berth.contracts.subjects import named_key, namespaced_key, question_subject, synced_key
from berth.runtime import Context
from berth.slo_manager.settings import Settings
from berth.slo_manager.shell import SERVICE, Shell, main
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

MAP = ("berth-system", "slo-controller-config")
CONFIG = namespaced_key("configmap", *MAP)
POOL = {"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}, "cpuSuppressThresholdPercent": 90}


class World:
    """The rest of the control plane: writes STATE, follows SLO, keeps commands and events."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.slo = View()
        self.objects: list[ApplyObject] = []
        self.refusals: list[ObjectRefused] = []
        self.replicas: list[tuple[Context[Settings], Bus, asyncio.Task[None]]] = []

    async def begin(self) -> None:
        self.bus = await Bus.connect(BusSettings(url=self.server.url), service="test")
        await self.bus.ensure()
        self.state = self.bus.owned(buckets.STATE)
        await self.state.ready()
        self.follower = asyncio.create_task(self.bus.follow(buckets.SLO, self.slo).run())
        await self.bus.subscribe("berth.v1.cmd.apply.nodeslos.>", self._command)
        await self.bus.subscribe("berth.v1.evt.slo.refused.>", self._event)

    async def finish(self) -> None:
        while self.replicas:
            await self.stop(0)
        self.follower.cancel()
        await asyncio.gather(self.follower, return_exceptions=True)
        await self.bus.close()

    async def start(self, instance: str, **settings: Any) -> None:
        context, bus = await self.context(instance, **settings)
        self.replicas.append((context, bus, asyncio.create_task(main(context))))

    async def start_shell(self, instance: str, lease: Turns) -> Shell:
        """A replica whose turns the test gives and takes."""
        context, bus = await self.context(instance)
        shell = Shell(context)
        shell.standby = lease  # type: ignore[assignment]
        self.replicas.append((context, bus, asyncio.create_task(shell.run())))
        return shell

    async def context(self, instance: str, **settings: Any) -> tuple[Context[Settings], Bus]:
        bus = await Bus.connect(BusSettings(url=self.server.url), service=SERVICE)
        chosen = Settings(**({"lease_ttl_s": 2} | settings))
        return Context(service=SERVICE, settings=chosen, bus=bus, instance=instance), bus

    async def stop(self, place: int) -> None:
        context, bus, task = self.replicas.pop(place)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await context.supervisor.stop(task, 5.0)
        assert context.supervisor.failure is None
        await bus.close()

    def nodes(self, *names: str, **labels: str) -> None:
        for name in names:
            node = Node(name=name, uid=f"uid-{name}", version=1, labels=labels)
            self.state.put(named_key("node", name), encode(node))

    def config(self, *nodes: dict[str, Any], **cluster: Any) -> None:
        self.texts({"resource-threshold-config": json.dumps({"clusterStrategy": cluster, "nodeStrategies": nodes})})

    def texts(self, data: dict[str, str]) -> None:
        self.state.put(CONFIG, encode(ConfigMap(namespace=MAP[0], name=MAP[1], version=1, data=data)))

    def complete(self) -> None:
        for kind in ("nodes", CONFIG):
            self.state.put(synced_key(kind), encode(Synced(kind=kind, version=1, complete=True)))

    def told(self, name: str) -> NodeSLO | None:
        value = self.slo.values.get(named_key("node", name))
        return decode(value, NodeSLO) if value else None

    def threshold(self, name: str) -> int | None:
        told = self.told(name)
        return told.cpu_suppress.threshold_percent if told is not None else None

    async def status(self) -> StatusAnswer:
        answer = await self.bus.ask(question_subject(SERVICE, "status"), encode(StatusQuestion()))
        return decode(answer, StatusAnswer)

    async def _command(self, message: Message) -> None:
        self.objects.append(decode(message.data, ApplyObject))

    async def _event(self, message: Message) -> None:
        self.refusals.append(decode(message.data, ObjectRefused))


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    world = World(nats_server)
    await world.begin()
    yield world
    await world.finish()


async def test_strategies_are_published_followed_and_withdrawn(world: World) -> None:
    world.nodes("plain-1.example.com")
    world.nodes("batch-1", pool="batch")
    world.config(POOL, enable=True)
    await world.start("one")
    await eventually(lambda: world.replicas[0][0].health.ready is False, what="it waits")
    assert world.slo.values == {}
    world.complete()
    await eventually(lambda: world.threshold("plain-1.example.com") == 65, what="the cluster's strategy")
    await eventually(lambda: world.threshold("batch-1") == 90, what="the pool's strategy")
    await eventually(lambda: len(world.objects) == 2, what="both objects")
    assert {each.name: each.spec for each in world.objects} == {
        name: world.told(name).spec for name in ("plain-1.example.com", "batch-1")
    }

    world.config(POOL, enable=True, cpuSuppressThresholdPercent=50)
    await eventually(lambda: world.threshold("plain-1.example.com") == 50, what="the new strategy")
    assert world.threshold("batch-1") == 90
    world.nodes("batch-1", pool="other")
    await eventually(lambda: world.threshold("batch-1") == 50, what="another label")
    assert [each.revision for each in world.objects] == sorted(each.revision for each in world.objects)

    world.state.delete(named_key("node", "batch-1"))
    await eventually(lambda: world.told("batch-1") is None, what="the withdrawal")
    world.state.delete(CONFIG)
    await eventually(
        lambda: (told := world.told("plain-1.example.com")) and not told.cpu_suppress.enabled, what="the default"
    )
    status = await world.status()
    assert (status.active, status.ready, status.facts["nodes"]) == (True, True, 1)
    assert status.facts["config map"] == "berth-system/slo-controller-config (none)"


async def test_an_unusable_key_changes_nothing_and_is_told(world: World) -> None:
    world.nodes("n")
    world.config(enable=True, cpuSuppressThresholdPercent=40)
    world.complete()
    await world.start("one")
    await eventually(lambda: world.threshold("n") == 40, what="the strategy")
    world.texts({"resource-threshold-config": '{"clusterStrategy":{"cpuSuppressThresholdPercent":400}}'})
    await eventually(lambda: world.refusals, what="the refusal")
    (refused,) = world.refusals
    assert (refused.kind, refused.namespace, refused.name) == ("ConfigMap", *MAP)
    field = "data[resource-threshold-config].clusterStrategy.cpuSuppressThresholdPercent"
    assert [problem.field for problem in refused.problems] == [field]
    assert (await world.status()).facts["unusable keys"] == "resource-threshold-config"
    # A restart knows nothing of what was read before: what is published stays.
    await world.stop(0)
    writes = len(world.slo.entries)
    await world.start("two")
    await eventually(lambda: len(world.refusals) == 2, what="the refusal by the next life")
    world.nodes("later")
    await eventually(lambda: world.told("later"), what="a new node")
    assert (world.threshold("n"), world.threshold("later")) == (40, 65)
    assert len(world.slo.entries) == writes + 1


async def test_a_restart_writes_nothing_anew(world: World) -> None:
    world.nodes("a", "b")
    world.config(enable=True)
    world.complete()
    await world.start("one")
    await eventually(lambda: len(world.objects) == 2, what="both objects")
    await world.stop(0)
    writes = len(world.slo.entries)
    world.state.delete(named_key("node", "b"))
    await world.start("two")
    await eventually(lambda: world.told("b") is None, what="what went meanwhile")
    assert len(world.slo.entries) == writes + 1
    assert len(world.objects) == 2


async def test_a_standby_takes_over(world: World) -> None:
    world.nodes("n")
    world.config(enable=True)
    world.complete()
    await world.start("one")
    await eventually(lambda: world.told("n"), what="the strategy")
    await world.start("two")
    await eventually(lambda: world.replicas[1][0].health.ready, what="the standby is ready")
    await world.stop(0)
    world.config(enable=True, cpuSuppressThresholdPercent=20)
    await eventually(lambda: world.threshold("n") == 20, what="the standby's word")


async def test_who_takes_over_again_keeps_what_the_other_published(world: World) -> None:
    world.nodes("n")
    world.config(enable=True, cpuSuppressThresholdPercent=40)
    world.complete()
    first, second = Turns(), Turns()
    shell = await world.start_shell("one", first)
    await world.start_shell("two", second)
    first.give()
    await eventually(lambda: world.threshold("n") == 40, what="the strategy")
    first.take()
    second.give()
    world.config(enable=True, cpuSuppressThresholdPercent=20)
    await eventually(lambda: world.threshold("n") == 20, what="the other's word")
    unusable = {"resource-threshold-config": "{"}
    world.texts(unusable)
    await eventually(lambda: world.refusals, what="the refusal")
    await eventually(lambda: shell.view.texts == unusable, what="both have read it")
    second.take()
    first.give()
    await eventually(lambda: len(world.refusals) == 2, what="the refusal by who is active again")
    writes = len(world.slo.entries)
    world.nodes("later")
    await eventually(lambda: world.told("later"), what="a new node")
    assert {entry.key for entry in world.slo.entries[writes:]} == {"node.later"}
    assert world.threshold("n") == 20


async def test_somebody_elses_write_is_put_right(world: World) -> None:
    world.nodes("n")
    world.config(enable=True)
    world.complete()
    await world.start("one")
    await eventually(lambda: world.threshold("n") == 65, what="the strategy")
    impostor = world.bus.owned(buckets.SLO)
    await impostor.ready()
    impostor.put("node.n", b"theirs")
    impostor.put("node.gone", encode(NodeSLO(node="gone")))
    await impostor.drain()
    await eventually(lambda: world.slo.values.keys() == {"node.n"}, what="only what is ours")
    await eventually(lambda: world.slo.values["node.n"] != b"theirs" and world.threshold("n") == 65, what="our word")
