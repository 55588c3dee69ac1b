"""The service on a real nats-server: what it publishes, asks for and answers, alone and beside a standby."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.services.turns import Stuck, Turns
from tests.services.worlds.shell import ShellWorld

from berth.contracts import buckets, names
from berth.contracts.codec import decode, encode
from berth.contracts.command import MANAGER, ApplyObject, Command, DeleteObject
from berth.contracts.inventory import NodeInventory
from berth.contracts.node_report import NodeReport, ReportedCore, ReportedDevice, ReportedZone
from berth.contracts.slo import NodeOffer, ZoneOffer
from berth.contracts.state import Device, DeviceInfo, Node, Synced
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.settings import SERVICE, Settings
from berth.device_inventory.shell import Shell, main
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


def machine(name: str, gpus: int = 2, *, version: int = 1, broken: int = 0) -> Device:
    entries = [DeviceInfo(kind="gpu", minor=m, healthy=m >= broken, amounts=WHOLE, position=m) for m in range(gpus)]
    return Device(name=name, uid=f"device-{name}", version=version, devices=entries)


class World(ShellWorld[Settings]):
    """The rest of the control plane."""

    service, publishes, kinds, command = SERVICE, buckets.INVENTORY, ("devices", "nodes"), cast(Any, Command)

    def __init__(self, server: NatsServer) -> None:
        self.inventory = View()
        super().__init__(server, self.inventory)
        self.version = 1

    async def start(self, instance: str, **settings: Any) -> None:
        chosen = Settings(**({"lease_ttl_s": 2, "device_retry_s": 1.0} | settings))
        context = await self.context(instance, chosen)
        self.run(context, main(context))

    async def start_shell(self, instance: str, lease: Turns) -> Shell:
        """A replica whose turns the test gives and takes."""
        context = await self.context(instance, Settings(lease_ttl_s=2))
        shell = Shell(context)
        shell.standby = lease  # type: ignore[assignment]
        self.run(context, shell.run())
        return shell

    def show(self, *messages: Device | Node) -> None:
        for message in messages:
            kind = "device" if isinstance(message, Device) else "node"
            self.put(named_key(kind, message.name), message)

    def report(self, message: NodeReport | None, node: str) -> None:
        """What the agent of a node says; None: that it reports no longer."""
        key = named_key("report", node)
        owned = self.bus.owned(buckets.METRICS, keys=key)
        if message is None:
            owned.delete(key)
        else:
            owned.put(key, encode(message))

    def published(self, name: str) -> NodeInventory | None:
        value = self.inventory.values.get(named_key("node", name))
        return decode(value, NodeInventory) if value else None

    @property
    def reported(self) -> list[str]:
        return [f"{event.type} {event.data.decode()}" for event in self.events]


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    world = World(nats_server)
    await world.begin()
    yield world
    await world.end()


async def test_devices_are_published_followed_and_withdrawn(world: World) -> None:
    name = "gpu-1.example.com"
    device = machine(name)
    world.show(device, Node(name=name, uid="u1", version=1), Node(name="plain", uid="u2", version=1))
    world.complete()
    await world.start("one")
    await eventually(lambda: world.published(name) == inventory_of(device), what="the first inventory")
    await eventually(lambda: world.commands, what="the first patch")
    assert (world.commands[0].name, world.commands[0].uid) == (name, "u1")
    assert world.commands[0].resources[names.GPU_MEMORY] == "160Gi"
    sums = dict.fromkeys(world.commands[0].resources, 200) | {names.GPU_MEMORY: 160 * GI}
    world.show(Node(name=name, uid="u1", version=2, allocatable=sums, capacity=sums))

    world.show(machine(name, version=2, broken=1))
    await eventually(lambda: (i := world.published(name)) and not i.devices[0].healthy, what="the bad GPU")
    await eventually(lambda: world.commands[-1].resources[names.GPU_CORE] == "100", what="the smaller sum")
    await eventually(lambda: any("gpu 0 became unhealthy" in event for event in world.reported), what="the event")
    status = await world.status()
    assert (status.active, status.ready) == (True, True)
    assert (status.facts["gpu healthy"], status.facts["gpu unhealthy"]) == (1, 1)

    world.state.delete(named_key("device", name))
    await eventually(lambda: named_key("node", name) not in world.inventory.values, what="the withdrawal")
    await eventually(lambda: set(world.commands[-1].resources.values()) == {None}, what="the withdrawn sums")
    assert all(patch.name != "plain" for patch in world.commands)


async def test_a_restart_writes_nothing_anew_and_clears_what_went_meanwhile(world: World) -> None:
    world.show(machine("a"), machine("b"))
    world.complete()
    await world.start("one")
    await eventually(lambda: len(world.inventory.values) == 2, what="both inventories")
    await world.stop(world.replicas[0])
    written = len(world.inventory.entries)
    world.state.delete(named_key("device", "b"))
    world.show(machine("c"))
    await world.state.drain()
    await world.start("two")
    await eventually(lambda: set(world.inventory.values) == {"node.a", "node.c"}, what="the new set")
    assert sorted(entry.key for entry in world.inventory.entries[written:]) == ["node.b", "node.c"]


async def test_what_a_lost_turn_interrupts_is_done_in_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.show(*(machine(name) for name in "abc"), *(Node(name=name, uid=name, version=1) for name in "abc"))
    world.complete()
    turns, stuck = Turns(), Stuck()
    shell = await world.start_shell("one", turns)
    with monkeypatch.context() as patched:
        patched.setattr(shell, "send", stuck)
        turns.give()
        await eventually(lambda: stuck.calls, what="commands find no capacity")
        turns.take()
        await eventually(lambda: len(world.inventory.values) == 3, what="no inventory waits for a command")
    turns.give()
    await eventually(lambda: {each.name for each in world.commands} == set("abc"), what="their patches")


async def test_a_patch_without_effect_is_asked_for_again(world: World) -> None:
    world.show(machine("a"), Node(name="a", uid="u", version=1))
    world.complete()
    await world.start("one", device_retry_s=0.2)
    await eventually(lambda: len(world.commands) >= 2, what="the second request")
    assert world.commands[0] == world.commands[1]


async def test_a_standby_takes_over_and_writes_on(world: World) -> None:
    world.show(machine("a"))
    world.complete()
    await world.start("one")
    await eventually(lambda: world.published("a"), what="the first replica's answer")
    await world.start("two")
    await world.stop(world.replicas[0])
    world.show(machine("a", gpus=3, version=2))
    await eventually(lambda: (i := world.published("a")) and len(i.devices) == 3, what="the standby's answer")


async def test_malformed_messages_stop_nobody(world: World) -> None:
    world.state.put("device.a", b'{"type":"device.seen.v1","name":"a","uid":1}')
    world.state.put("device.b", b"not json")
    world.state.put("node.a", b"[1]")
    bad = DeviceInfo(kind="gpu", minor=-5, healthy=True, amounts={names.GPU_MEMORY: -1}, position=0)
    world.show(Device(name="c", uid="u", version=1, devices=[bad, *machine("c").devices]))
    world.complete()
    await world.start("one")
    await eventually(lambda: world.published("c"), what="the good devices")
    inventory = world.published("c")
    assert inventory is not None
    assert [slot.minor for slot in inventory.devices] == [0, 1]
    assert inventory.problems[0].field == "spec.devices[0].minor"
    await eventually(lambda: any("object.refused.v1" in event for event in world.reported), what="the refusal")
    assert (await world.status()).facts["unreadable messages"] == 3


async def test_a_server_that_dies_and_comes_back_is_followed_on(world: World) -> None:
    world.show(machine("a"))
    world.complete()
    await world.start("one")
    await eventually(lambda: world.published("a"), what="the first answer")
    world.server.kill()
    world.server.start()
    world.show(machine("a", gpus=4, version=2))
    await eventually(lambda: (i := world.published("a")) and len(i.devices) == 4, what="the answer after the crash")


async def test_what_an_agent_reports_becomes_an_object_and_goes_with_the_report(world: World) -> None:
    name = "gpu-1.example.com"
    world.version = 1
    world.show(Node(name=name, uid="u1", version=1))
    world.complete()
    await world.start("one", device_sync_nodes=False)
    card = ReportedDevice(kind="gpu", minor=0, id="GPU-0", amounts=WHOLE, since=5.0)
    told = NodeReport(node=name, version=7, parts={"devices": 7}, devices=[card])
    world.report(told, name)
    await eventually(lambda: world.commands, what="the request")
    (apply,) = world.commands
    assert isinstance(apply, ApplyObject)
    assert (apply.name, apply.owner.uid if apply.owner else "") == (name, "u1")
    made = Device(
        name=name,
        uid="d1",
        version=2,
        labels={**apply.labels, names.LABEL_MANAGED_BY: MANAGER},
        annotations=apply.annotations,
        devices=[DeviceInfo(kind="gpu", minor=0, uuid="GPU-0", healthy=True, amounts=WHOLE)],
    )
    world.show(made)
    await eventually(lambda: world.published(name) == inventory_of(made), what="its inventory")
    status = await world.status()
    assert (status.facts["nodes that report"], status.facts["objects of others"]) == (1, 0)

    ill = replace(card, healthy=False, reason="Xid79")
    world.report(replace(told, version=8, parts={"devices": 8}, devices=[ill]), name)
    await eventually(lambda: len(world.commands) == 2, what="the next request")
    assert world.commands[1].spec["devices"][0]["health"] is False
    world.report(None, name)
    await eventually(lambda: isinstance(world.commands[-1], DeleteObject), what="the deletion")
    assert world.commands[-1].uid == "d1"


async def test_what_slo_says_of_numa_nodes_reaches_the_topology(world: World) -> None:
    name = "cpu-1.example.com"
    world.version = 1
    world.show(Node(name=name, uid="u1", version=1))
    world.complete()
    for kind in ("noderesourcetopologies", "pods"):
        world.put(synced_key(kind), Synced(kind=kind, version=1, complete=True))
    slo = world.bus.owned(buckets.SLO)
    await slo.ready()
    zone = ZoneOffer(zone=0, amounts={names.BATCH_CPU: 1_500, names.BATCH_MEMORY: GI})
    slo.put(named_key("offer", name), encode(NodeOffer(node=name, uid="u1", revision=1, zones_written=[zone])))
    await world.start("one", device_sync_nodes=False)
    cores = [ReportedCore(socket=0, core=core, zone=0, cpus=str(core)) for core in range(2)]
    told = NodeReport(node=name, version=7, parts={"cpus": 7}, cores=cores, zones=[ReportedZone(zone=0, memory=GI)])
    world.report(told, name)

    def shown() -> dict[str, str]:
        applied = [each for each in world.commands if isinstance(each, ApplyObject)]
        resources = applied[-1].fields["zones"][0]["resources"] if applied else []
        return {each["name"]: each["allocatable"] for each in resources}

    await eventually(lambda: shown().get(names.BATCH_CPU) == "1500", what="what it lends")
    assert shown()[names.BATCH_MEMORY] == "1Gi"
    slo.put(named_key("offer", name), encode(NodeOffer(node=name, uid="u1", revision=2, zones_written=[])))
    await eventually(lambda: names.BATCH_CPU not in shown(), what="that it lends nothing")
