"""The service on a real nats-server: what it publishes, asks for and answers, alone and beside a standby."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.services.turns import Stuck, Turns
from tests.services.worlds.shell import ShellWorld

from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.command import ApplyObject, OfferNode
from berth.contracts.event import ObjectRefused
from berth.contracts.metrics import NodeMetrics, Usage
from berth.contracts.names import BATCH_CPU, CPU, MEMORY
from berth.contracts.slo import NodeOffer, NodeSLO
from berth.contracts.state import ConfigMap, Node, Synced
from berth.contracts.subjects import named_key, namespaced_key, synced_key
from berth.slo_manager.settings import SERVICE, Settings
from berth.slo_manager.shell import Shell, main
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

MAP = ("berth-system", "slo-controller-config")
CONFIG = namespaced_key("configmap", *MAP)
POOL = {"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}, "cpuSuppressThresholdPercent": 90}


class World(ShellWorld[Settings]):
    """The rest of the control plane."""

    service, publishes, kinds, command = SERVICE, buckets.SLO, ("nodes", CONFIG), ApplyObject

    def __init__(self, server: NatsServer) -> None:
        self.slo = View()
        super().__init__(server, self.slo)
        self.version = 1

    async def start(self, instance: str, **settings: Any) -> None:
        context = await self.context(instance, Settings(**({"lease_ttl_s": 2} | settings)))
        self.run(context, main(context))

    async def start_shell(self, instance: str, lease: Turns) -> Shell:
        """A replica whose turns the test gives and takes."""
        context = await self.context(instance, Settings(lease_ttl_s=2))
        shell = Shell(context)
        shell.standby = lease  # type: ignore[assignment]
        self.run(context, shell.run())
        return shell

    def nodes(self, *names: str, **labels: str) -> None:
        for name in names:
            self.put(named_key("node", name), Node(name=name, uid=f"uid-{name}", version=1, labels=labels))

    def config(self, *nodes: dict[str, Any], **cluster: Any) -> None:
        self.texts({"resource-threshold-config": json.dumps({"clusterStrategy": cluster, "nodeStrategies": nodes})})

    def texts(self, data: dict[str, str]) -> None:
        self.put(CONFIG, ConfigMap(namespace=MAP[0], name=MAP[1], version=1, data=data))

    def reported(self, name: str) -> NodeSLO | None:
        value = self.slo.values.get(named_key("node", name))
        return decode(value, NodeSLO) if value else None

    def threshold(self, name: str) -> int | None:
        told = self.reported(name)
        return told.cpu_suppress.threshold_percent if told is not None else None

    @property
    def refusals(self) -> list[ObjectRefused]:
        return [
            decode(event.data, ObjectRefused) for event in self.events if "object.refused.configmaps" in event.subject
        ]


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    world = World(nats_server)
    await world.begin()
    yield world
    await world.end()


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
    await eventually(lambda: len(world.commands) == 2, what="both objects")
    assert {each.name: each.spec for each in world.commands} == {
        name: world.reported(name).spec for name in ("plain-1.example.com", "batch-1")
    }

    world.config(POOL, enable=True, cpuSuppressThresholdPercent=50)
    await eventually(lambda: world.threshold("plain-1.example.com") == 50, what="the new strategy")
    assert world.threshold("batch-1") == 90
    world.nodes("batch-1", pool="other")
    await eventually(lambda: world.threshold("batch-1") == 50, what="another label")
    assert [each.revision for each in world.commands] == sorted(each.revision for each in world.commands)

    world.state.delete(named_key("node", "batch-1"))
    await eventually(lambda: world.reported("batch-1") is None, what="the withdrawal")
    world.state.delete(CONFIG)
    await eventually(
        lambda: (told := world.reported("plain-1.example.com")) and not told.cpu_suppress.enabled, what="the default"
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
    await world.stop(world.replicas[0])
    writes = len(world.slo.entries)
    await world.start("two")
    await eventually(lambda: len(world.refusals) == 2, what="the refusal by the next life")
    world.nodes("later")
    await eventually(lambda: world.reported("later"), what="a new node")
    assert (world.threshold("n"), world.threshold("later")) == (40, 65)
    assert len(world.slo.entries) == writes + 1


async def test_a_restart_writes_nothing_anew(world: World) -> None:
    world.nodes("a", "b")
    world.config(enable=True)
    world.complete()
    await world.start("one")
    await eventually(lambda: len(world.commands) == 2, what="both objects")
    await world.stop(world.replicas[0])
    writes = len(world.slo.entries)
    world.state.delete(named_key("node", "b"))
    await world.start("two")
    await eventually(lambda: world.reported("b") is None, what="what went meanwhile")
    assert len(world.slo.entries) == writes + 1
    assert len(world.commands) == 2


async def test_a_standby_takes_over(world: World) -> None:
    world.nodes("n")
    world.config(enable=True)
    world.complete()
    await world.start("one")
    await eventually(lambda: world.reported("n"), what="the strategy")
    await world.start("two")
    await eventually(lambda: world.replicas[1][0].health.ready, what="the standby is ready")
    await world.stop(world.replicas[0])
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
    await eventually(lambda: world.reported("later"), what="a new node")
    assert {entry.key for entry in world.slo.entries[writes:]} == {"node.later"}
    assert world.threshold("n") == 20


async def test_what_a_lost_turn_interrupts_is_done_in_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.nodes("a", "z")
    world.config(enable=True)
    world.complete()
    turns = Turns()
    shell = await world.start_shell("one", turns)
    turns.give()
    await eventually(lambda: world.reported("a") and world.reported("z"), what="both strategies")
    turns.take()
    world.nodes("b", "c")
    world.state.delete(named_key("node", "z"))
    await eventually(lambda: shell.view.nodes.keys() == {"a", "b", "c"}, what="the replica has read it")
    stuck = Stuck()
    with monkeypatch.context() as patched:
        patched.setattr(shell, "send", stuck)
        turns.give()
        await eventually(lambda: stuck.calls, what="commands find no capacity")
        turns.take()
        await asyncio.sleep(0.1)
    assert world.reported("z")
    turns.give()
    await eventually(lambda: world.slo.values.keys() == {"node.a", "node.b", "node.c"}, what="what is left to do")
    await eventually(lambda: {each.name for each in world.commands} == {"a", "b", "c", "z"}, what="their objects")


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


async def test_what_a_node_lends_follows_the_reports_of_its_agent(world: World) -> None:
    world.command = OfferNode  # type: ignore[misc]
    size = {CPU: 10_000, MEMORY: 2**35}
    world.put(named_key("node", "n"), Node(name="n", uid="uid-n", version=1, capacity=size, allocatable=size))
    world.put(synced_key("pods"), Synced(kind="pods", version=1, complete=True))
    world.texts({"colocation-config": json.dumps({"enable": True})})
    world.complete()
    key = named_key("node", "n")
    agent = world.bus.owned(buckets.METRICS, keys=key)

    def report(cpu_milli: int) -> None:
        used = Usage(cpu_milli=cpu_milli, memory_bytes=2**30)
        message = NodeMetrics(
            node="n", measured_at=1.0, interval_s=10.0, memory_total_bytes=2**35, node_usage=used, system_usage=used
        )
        agent.put(key, encode(message))

    def offer() -> NodeOffer | None:
        value = world.slo.values.get(named_key("offer", "n"))
        return decode(value, NodeOffer) if value else None

    def lends() -> int:
        found = offer()
        return found.offers[BATCH_CPU].amount if found is not None and found.offers else -1

    await world.start("one", slo_sync_objects=False, slo_sync_nodes=False)
    report(1_000)
    await eventually(lambda: lends() == 0, what="an offer of nothing yet")
    report(1_500)
    await eventually(lambda: lends() == 4_500, what="what two reports agree on")
    await eventually(lambda: len(world.commands) == 1, what="the write")
    assert world.commands[0].resources[BATCH_CPU] == "4500"
    await eventually(lambda: (found := offer()) is not None and found.written[BATCH_CPU] == 4_500, what="its record")
    report(4_000)
    await eventually(lambda: lends() == 2_000, what="a fall, at once")
    world.state.delete(named_key("node", "n"))
    await eventually(lambda: offer() is None, what="the offer goes with its node")
