"""The service on a real nats-server: what it publishes, asks for and answers, alone and beside a standby."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth.bus import Bus, BusSettings
from berth.bus.port import Message
from berth.contracts import buckets, names
from berth.contracts.codec import decode, encode
from berth.contracts.command import PatchNode
from berth.contracts.inventory import NodeInventory
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.state import Device, DeviceInfo, Node, Synced
from berth.contracts.subjects import named_key, question_subject, synced_key
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.settings import Settings
from berth.device_inventory.shell import SERVICE, main
from berth.runtime import Context
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


def machine(name: str, gpus: int = 2, *, version: int = 1, broken: int = 0) -> Device:
    entries = [DeviceInfo(kind="gpu", minor=m, healthy=m >= broken, amounts=WHOLE, position=m) for m in range(gpus)]
    return Device(name=name, uid=f"device-{name}", version=version, devices=entries)


class World:
    """The rest of the control plane: writes STATE, follows INVENTORY, keeps commands and events."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.inventory = View()
        self.patches: list[PatchNode] = []
        self.events: list[str] = []
        self.replicas: list[tuple[Context[Settings], Bus, asyncio.Task[None]]] = []

    async def begin(self) -> None:
        self.bus = await Bus.connect(BusSettings(url=self.server.url), service="test")
        await self.bus.ensure()
        self.state = self.bus.owned(buckets.STATE)
        await self.state.ready()
        self.follower = asyncio.create_task(self.bus.follow(buckets.INVENTORY, self.inventory).run())
        await self.bus.subscribe("berth.v1.cmd.patch.nodes.>", self._command)
        await self.bus.subscribe("berth.v1.evt.node.>", self._event)

    async def finish(self) -> None:
        while self.replicas:
            await self.stop(0)
        self.follower.cancel()
        await asyncio.gather(self.follower, return_exceptions=True)
        await self.bus.close()

    async def start(self, instance: str, **settings: Any) -> None:
        bus = await Bus.connect(BusSettings(url=self.server.url), service=SERVICE)
        chosen = Settings(**({"lease_ttl_s": 2, "device_retry_s": 1.0} | settings))
        context = Context(service=SERVICE, settings=chosen, bus=bus, instance=instance)
        self.replicas.append((context, bus, asyncio.create_task(main(context))))

    async def stop(self, place: int) -> None:
        context, bus, task = self.replicas.pop(place)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await context.supervisor.stop(task, 5.0)
        assert context.supervisor.failure is None
        await bus.close()

    def show(self, *messages: Device | Node) -> None:
        for message in messages:
            kind = "device" if isinstance(message, Device) else "node"
            self.state.put(named_key(kind, message.name), encode(message))

    def complete(self, version: int = 1) -> None:
        marker = Synced(kind="devices", version=version, complete=True)
        self.state.put(synced_key("devices"), encode(marker))

    def published(self, name: str) -> NodeInventory | None:
        value = self.inventory.values.get(named_key("node", name))
        return decode(value, NodeInventory) if value else None

    async def status(self) -> StatusAnswer:
        answer = await self.bus.ask(question_subject(SERVICE, "status"), encode(StatusQuestion()))
        return decode(answer, StatusAnswer)

    async def _command(self, message: Message) -> None:
        self.patches.append(decode(message.data, PatchNode))

    async def _event(self, message: Message) -> None:
        self.events.append(f"{message.type} {message.data.decode()}")


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    world = World(nats_server)
    await world.begin()
    yield world
    await world.finish()


async def test_devices_are_published_followed_and_withdrawn(world: World) -> None:
    name = "gpu-1.example.com"
    device = machine(name)
    world.show(device, Node(name=name, uid="u1", version=1), Node(name="plain", uid="u2", version=1))
    world.complete()
    await world.start("one")
    await eventually(lambda: world.published(name) == inventory_of(device), what="the first inventory")
    await eventually(lambda: world.patches, what="the first patch")
    assert (world.patches[0].name, world.patches[0].uid) == (name, "u1")
    assert world.patches[0].resources[names.GPU_MEMORY] == "160Gi"
    sums = dict.fromkeys(world.patches[0].resources, 200) | {names.GPU_MEMORY: 160 * GI}
    world.show(Node(name=name, uid="u1", version=2, allocatable=sums, capacity=sums))

    world.show(machine(name, version=2, broken=1))
    await eventually(lambda: (i := world.published(name)) and not i.devices[0].healthy, what="the bad GPU")
    await eventually(lambda: world.patches[-1].resources[names.GPU_CORE] == "100", what="the smaller sum")
    await eventually(lambda: any("gpu 0 became unhealthy" in event for event in world.events), what="the event")
    status = await world.status()
    assert (status.active, status.ready) == (True, True)
    assert (status.facts["gpu healthy"], status.facts["gpu unhealthy"]) == (1, 1)

    world.state.delete(named_key("device", name))
    await eventually(lambda: named_key("node", name) not in world.inventory.values, what="the withdrawal")
    await eventually(lambda: set(world.patches[-1].resources.values()) == {None}, what="the withdrawn sums")
    assert all(patch.name != "plain" for patch in world.patches)


async def test_a_restart_writes_nothing_anew_and_clears_what_went_meanwhile(world: World) -> None:
    world.show(machine("a"), machine("b"))
    world.complete()
    await world.start("one")
    await eventually(lambda: len(world.inventory.values) == 2, what="both inventories")
    await world.stop(0)
    written = len(world.inventory.entries)
    world.state.delete(named_key("device", "b"))
    world.show(machine("c"))
    await world.state.drain()
    await world.start("two")
    await eventually(lambda: set(world.inventory.values) == {"node.a", "node.c"}, what="the new set")
    assert sorted(entry.key for entry in world.inventory.entries[written:]) == ["node.b", "node.c"]


async def test_a_patch_without_effect_is_asked_for_again(world: World) -> None:
    world.show(machine("a"), Node(name="a", uid="u", version=1))
    world.complete()
    await world.start("one", device_retry_s=0.2)
    await eventually(lambda: len(world.patches) >= 2, what="the second request")
    assert world.patches[0] == world.patches[1]


async def test_a_standby_takes_over_and_writes_on(world: World) -> None:
    world.show(machine("a"))
    world.complete()
    await world.start("one")
    await eventually(lambda: world.published("a"), what="the first replica's answer")
    await world.start("two")
    await world.stop(0)
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
    await eventually(lambda: any("object.refused.v1" in event for event in world.events), what="the refusal")
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
