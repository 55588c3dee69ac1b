"""The recorder on a real nats-server, with a folder that may be full, gone or torn."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.services.worlds.recorder import MemoryDisk
from tests.services.worlds.shell import Replica, ShellWorld

from berth.bus.errors import NoAnswer
from berth.bus.port import Entry
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.ledger import Plan, PlanStatus
from berth.contracts.round import Ground, Round
from berth.contracts.state import Node
from berth.contracts.subjects import named_key
from berth.recorder.disk import Folder
from berth.recorder.settings import SERVICE, Settings
from berth.recorder.shell import main
from berth.recording.frames import MARK, Frames, frame
from berth.recording.grounds import Known, named, told
from berth.recording.records import AnyRecord, Began, Entered, Told, Whole
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually, eventually_async

pytestmark = pytest.mark.asyncio


class Nothing:
    def reset(self) -> None: ...

    def apply(self, entry: Entry) -> None: ...

    def end(self, sequence: int) -> None: ...


class World(ShellWorld[Settings]):
    service, publishes, kinds = SERVICE, buckets.SLO, ()

    def __init__(self, server: NatsServer) -> None:
        super().__init__(server, Nothing())
        self.disk = MemoryDisk()

    async def start(self, instance: str = "one", **settings: Any) -> Replica[Settings]:
        context = await self.context(instance, Settings(lease_ttl_s=2, record_every_s=0.02, **settings))
        return self.run(context, main(context, lambda _: self.disk))

    def node(self, name: str, note: str = "") -> None:
        self.put(named_key("node", name), Node(name=name, uid="u", version=1, annotations={"note": note}))

    def records(self) -> list[list[AnyRecord]]:
        """Of each segment."""
        return [
            [record for block in Frames(bytes(data)) for record in block] for _, data in sorted(self.disk.held.items())
        ]

    def keys(self) -> list[list[str]]:
        return [[each.key for each in segment if isinstance(each, Entered)] for segment in self.records()]

    def has(self, *segments: list[str]) -> bool:
        return self.keys() == [[f"node.{name}" for name in names] for names in segments]

    async def trouble(self) -> object:
        return (await self.status()).facts["trouble"]


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    made = World(nats_server)
    await made.begin()
    yield made
    await made.end()


async def test_everything_is_kept_in_the_order_in_which_it_came(world: World) -> None:
    world.node("before")
    await world.start()
    await eventually(lambda: world.has(["before"]))
    world.node("a")
    world.node("b")
    await eventually(lambda: world.has(["before", "a", "b"]))
    (records,) = world.records()
    assert isinstance(records[0], Began)
    assert set(records[0].streams) >= {buckets.STATE, buckets.LEDGER}
    assert all(records[0].streams.values())
    assert sum(isinstance(each, Whole) for each in records) == 1
    assert await world.trouble() == "none"


async def test_it_goes_on_with_a_checkpoint_when_there_is_room_again(world: World) -> None:
    await world.start()
    await eventually(lambda: world.has([]))
    world.disk.room = sum(map(len, world.disk.held.values())) + 20
    world.node("a")
    await eventually(lambda: bool(world.disk.held) and sum(map(len, world.disk.held.values())) == world.disk.room)
    assert "No space left" in str(await world.trouble())
    world.node("b")
    world.disk.room = None
    await eventually(lambda: world.has([], ["a", "b"]))
    runs = {segment[0].run for segment in world.records() if isinstance(segment[0], Began)}
    assert len(runs) == 2


async def test_a_torn_end_is_cut_off_at_the_next_start(world: World) -> None:
    replica = await world.start()
    await eventually(lambda: world.has([]))
    await world.stop(replica)
    (name,) = world.disk.held
    whole = len(world.disk.held[name])
    world.disk.held[name] += b"\x09\x00\x00\x00torn"
    await world.start("two")
    await eventually(lambda: len(world.disk.held) == 2)
    assert len(world.disk.held[name]) == whole


async def test_the_folder_is_bounded(world: World) -> None:
    await world.start(record_bytes_max=1 << 20)
    await eventually(lambda: world.has([]))
    for number in range(80):
        world.node("a", note=random.Random(number).randbytes(20_000).hex())
        await world.state.drain()
    await eventually(lambda: min(world.disk.held) != "berth-0000000001.rec")
    assert sum(map(len, world.disk.held.values())) < (1 << 20) * 1.25


async def test_a_folder_of_this_machine(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Folder(tmp_path_factory.mktemp("segments") / "made")
    assert folder.files() == []
    folder.append("a", b"one")
    folder.append("a", b"two")
    folder.cut("a", 4)
    assert (folder.read("a"), [tuple(each) for each in folder.files()]) == (b"onet", [("a", 4)])
    folder.delete("a")
    folder.delete("a")
    assert folder.files() == []


class Ledger(World):
    """With plans of a solver, each of which tells a ground."""

    async def begin(self) -> None:
        await super().begin()
        self.ledger = self.bus.owned(buckets.LEDGER)
        await self.ledger.ready()

    def plan(self, number: int, said: Ground) -> None:
        entry = Plan(id=f"p{number}", status=PlanStatus.COMMITTED, round=Round(ground=said.id, told=said))
        self.ledger.put(f"e1.plan.p{number}", encode(entry))

    async def forget(self, number: int) -> None:
        """No pod of the plan is left."""
        self.ledger.delete(f"e1.plan.p{number}")
        await self.ledger.drain()

    def told(self) -> list[list[str]]:
        """Grounds at the head of each segment."""
        return [[each.ground.id for each in segment if isinstance(each, Told)] for segment in self.records()]

    async def is_troubled(self) -> bool:
        try:
            return "Input/output error" in str(await self.trouble())
        except NoAnswer:
            return False

    async def recorded(self) -> None:
        """Two grounds, the second as changes; the plans that told them go, and a third one while nobody records."""
        replica = await self.start()
        await eventually(lambda: self.has([]))
        self.plan(1, told(ONE.ground, ONE.nodes))
        self.plan(2, told(OTHER.ground, OTHER.nodes, ONE))
        await eventually(lambda: len(self.keys()[0]) == 2)
        await self.stop(replica)
        for number in (1, 2):
            await self.forget(number)
        self.plan(3, told(NEWEST.ground, NEWEST.nodes, OTHER))
        await self.ledger.drain()


NODES = tuple(f"n{number}" for number in range(20))
ONE = Known(named(Ground(id="", version="1"), NODES), NODES)
OTHER = Known(named(Ground(id="", version="1", turning_over=0.5), NODES), NODES)
NEWEST = Known(named(Ground(id="", version="1"), (*NODES, "new")), (*NODES, "new"))
KNOWN = [each.ground.id for each in (ONE, OTHER, NEWEST)]


@pytest.fixture
async def ledger(nats_server: NatsServer) -> AsyncIterator[Ledger]:
    made = Ledger(nats_server)
    await made.begin()
    yield made
    await made.end()


async def test_what_was_told_before_a_restart_is_known_after_it(ledger: Ledger) -> None:
    await ledger.recorded()
    replica = await ledger.start("two")
    await eventually(lambda: ledger.told() == [[], KNOWN])
    await ledger.crash(replica)
    await ledger.start("three")
    await eventually(lambda: ledger.told() == [[], KNOWN, KNOWN])
    assert (await ledger.status()).facts["grounds refused"] == 0


async def test_it_is_known_after_a_crash_in_the_middle_of_a_write(ledger: Ledger) -> None:
    await ledger.recorded()
    (name,) = ledger.disk.held
    whole = len(ledger.disk.held[name])
    ledger.disk.held[name] += b"\x09\x00\x00\x00torn"
    await ledger.start("two")
    await eventually(lambda: ledger.told() == [[], KNOWN])
    assert len(ledger.disk.held[name]) == whole


async def test_it_is_known_after_a_crash_in_the_middle_of_a_checkpoint(ledger: Ledger) -> None:
    await ledger.recorded()
    for number in (2, 3):
        ledger.disk.held[f"berth-{number:010d}.rec"] = bytearray(MARK + frame([Began("run", 1.0, {})])[:-1])
    await ledger.start("two")
    await eventually(lambda: ledger.told()[3:] == [KNOWN])
    assert ledger.disk.held["berth-0000000003.rec"] == MARK


async def test_it_is_not_ready_while_it_reads_what_was_before(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    await ledger.recorded()
    real, shown = ledger.disk.read, []

    def read(name: str) -> bytes:
        health = ledger.replicas[0][0].health
        shown.append((health.ready, health.readiness().get("segments", (True, ""))[1]))
        return real(name)

    monkeypatch.setattr(ledger.disk, "read", read)
    context, _ = await ledger.start("two")
    await eventually(lambda: ledger.told() == [[], KNOWN])
    assert shown == [(False, "reading what was recorded before")]
    assert context.health.ready


async def test_it_records_though_it_could_not_read_what_was_before(ledger: Ledger) -> None:
    await ledger.recorded()
    ledger.disk.is_gone = True
    await ledger.start("two")
    await eventually_async(ledger.is_troubled)
    ledger.disk.is_gone = False
    await eventually(lambda: ledger.told() == [[], []])
    assert (await ledger.status()).facts["grounds refused"] == 1
