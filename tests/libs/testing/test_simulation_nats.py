"""The simulated bus under faults, with the real berth.bus above it, on a world's virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from berth.bus import Bus, BusSettings, Committed, Unknown, Write
from berth.testing.simulation.nats import Faults, SimNats, WorldScheduler
from berth.testing.simulation.nats.rights import Rights
from berth.testing.simulation.process import Process
from berth.testing.simulation.world import World
from berth.testing.views import View

LEDGER = "berth_ledger"
NAMES = ("listener", "another")


class Scene:
    """A world with a bus; processes are coroutine functions of a connected Bus."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.nats = SimNats(WorldScheduler(self.world), random=self.world.chance("bus"))
        self.buses: dict[str, Bus] = {}

    def run(self, name: str, main: Callable[[Bus], Awaitable[object]], rights: Rights | None = None) -> Process:
        process = self.world.process(name)
        process.on_end(self.nats.sever)

        async def whole() -> None:
            self.buses[name] = bus = await Bus.connect(
                BusSettings(),
                service=name,
                clock=process.clock,
                random=process.random,
                client=self.nats.clients_of(process, rights),
            )
            if rights is None:
                await bus.ensure()
            await main(bus)
            await asyncio.Event().wait()

        process.start(whole())
        return process

    def follow(self, name: str, bucket: str = LEDGER) -> View:
        view = View()

        async def main(bus: Bus) -> None:
            await bus.follow(bucket, view).run()

        self.run(name, main)
        return view

    def stored(self, bucket: str = LEDGER) -> dict[str, bytes]:
        stream = self.nats.streams[f"KV_{bucket}"]
        return {each.subject.split(".", 2)[2]: each.data for each in stream.messages.values()}


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.world.close()


def until(scene: Scene, condition: Callable[[], object], within_s: float = 60.0) -> None:
    assert scene.world.run_until(lambda: bool(condition()), within_s), f"not within {within_s:g} virtual seconds"


def batch(name: str, count: int) -> list[Write]:
    return [Write(f"{name}.{number}", b"v", 0) for number in range(count)]


def storm(seed: int) -> tuple[str, dict[str, bytes], list[tuple[str, int]]]:
    """Writers and readers under every fault of the way; what came of it."""
    scene = Scene(seed)
    with scene.world:
        draw = scene.world.chance("faults")
        scene.nats.faults = Faults(
            up_s=lambda _: draw.uniform(0, 0.05),
            down_s=lambda _: draw.uniform(0, 0.2),
            store_s=lambda _: draw.uniform(0, 0.02),
            chunk=lambda _: draw.choice((0, 0, 1, 3)),
            drop_ack=lambda _stream, _subject: draw.random() < 0.1,
        )
        view = scene.follow("reader")

        def writer(number: int) -> Callable[[Bus], Awaitable[None]]:
            async def main(bus: Bus) -> None:
                owned = bus.owned("berth_state", keys=f"w{number}")
                for turn in range(20):
                    owned.put(f"w{number}", b"%d" % turn)
                    await bus.ledger().commit(batch(f"{number}.{turn}", 5))
                await owned.drain()

            return main

        processes = [scene.run(f"writer-{number}", writer(number)) for number in range(3)]
        for turn in range(6):
            scene.world.run(scene.world.now + draw.uniform(0.5, 3))
            victim = processes[turn % 3]
            draw.choice(
                (
                    lambda victim=victim: scene.nats.cut(victim, draw.randrange(4)),
                    lambda victim=victim: scene.nats.stall(victim, 3),
                    lambda victim=victim: scene.nats.partition(victim, 20),
                    lambda: scene.nats.restart(1, lambda nats: nats.lose_tail(f"KV_{LEDGER}", 3)),
                )
            )()
        scene.world.run(scene.world.now + 300)
        stored = scene.stored()
        assert view.values == stored
        assert scene.stored("berth_state") == {f"w{number}": b"19" for number in range(3)}
        assert all(process.failure is None and process.alive for process in processes)
        return scene.world.trail, stored, [(entry.key, entry.sequence) for entry in view.entries]


@pytest.mark.parametrize("seed", range(6))
def test_readers_and_owners_come_through_a_storm_and_the_seed_says_it_all(seed: int) -> None:
    assert storm(seed) == storm(seed)


@pytest.mark.parametrize("arriving", [0, 4, 30])
def test_a_batch_of_a_process_that_is_killed_is_there_whole_or_not_at_all(scene: Scene, arriving: int) -> None:
    scene.nats.faults.up_s = lambda _: 0.01

    async def main(bus: Bus) -> None:
        await bus.ledger().commit(batch("a", 10))

    process = scene.run("writer", main)
    assert scene.world.run_until(lambda: f"KV_{LEDGER}" in scene.nats.streams, 10, every_s=0.001)
    clients = scene.nats.connections(process)
    until_posted = lambda: any(len(client._up) == 10 for client in clients)  # noqa: E731
    assert scene.world.run_until(until_posted, 10, every_s=0.001)
    scene.nats.sever(process, arriving)
    process.kill()
    scene.world.run(scene.world.now + 30)
    assert len(scene.stored()) == (10 if arriving >= 10 else 0)


def test_a_lost_tail_brings_back_what_it_had_replaced(scene: Scene) -> None:
    view = scene.follow("reader")
    outcomes: list[object] = []

    async def main(bus: Bus) -> None:
        ledger = bus.ledger()
        outcomes.append(await ledger.commit([Write("a", b"1", 0), Write("b", b"1", 0)]))
        outcomes.append(await ledger.commit([Write("a", b"2", 1), Write("c", b"1", 0)]))

    scene.run("writer", main)
    until(scene, lambda: len(view.entries) == 4)
    assert outcomes == [Committed(2), Committed(4)]
    scene.nats.restart(1.0, lambda nats: nats.lose_tail(f"KV_{LEDGER}", 2))
    until(scene, lambda: view.resets == 1 and view.values == {"a": b"1", "b": b"1"})
    assert scene.nats.streams[f"KV_{LEDGER}"].last == 2


def test_what_a_partitioned_client_had_sent_arrives_late(scene: Scene) -> None:
    outcomes: list[object] = []
    go = asyncio.Event()

    async def main(bus: Bus) -> None:
        await go.wait()
        outcomes.append(await bus.ledger().commit(batch("a", 3)))

    process = scene.run("writer", main)
    until(scene, lambda: f"KV_{LEDGER}" in scene.nats.streams)
    scene.world.run(scene.world.now + 1)
    scene.nats.partition(process, 40)
    process.call(go.set)
    until(scene, lambda: outcomes, 30)
    assert isinstance(outcomes[0], Unknown)
    assert scene.stored() == {}
    scene.world.run(scene.world.now + 40)
    assert len(scene.stored()) == 3
    assert scene.buses["writer"].connected.is_set()


def test_lost_acknowledgements_and_double_deliveries(scene: Scene) -> None:
    handled: list[bytes] = []
    draw = scene.world.chance("faults")
    scene.nats.faults.drop_ack = lambda _stream, _subject: draw.random() < 0.3
    scene.nats.faults.duplicate = lambda _stream, _consumer: draw.random() < 0.3

    async def send(bus: Bus) -> None:
        for number in range(50):
            await bus.commands().publish(f"berth.v1.cmd.x.{number}", b"%d" % number, id=f"i{number}", type="t")
        await bus.commands().drain()

    async def work(bus: Bus) -> None:
        async def handle(message: object) -> None:
            handled.append(message.data)  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)

        await bus.consume("worker", handle, subjects="berth.v1.cmd.>").run()

    scene.run("sender", send)
    scene.run("worker", work)
    until(scene, lambda: set(handled) == {b"%d" % number for number in range(50)}, 120)
    until(scene, lambda: not scene.nats.streams["BERTH_CMD"].messages, 120)
    assert len(handled) > 50


def test_an_empty_bus_is_made_anew(scene: Scene) -> None:
    view = scene.follow("reader", "berth_state")
    scene.run("writer", lambda bus: bus.owned("berth_state").ready())
    until(scene, lambda: view.ends)
    scene.nats.restart(0.5, lambda nats: nats.empty())
    scene.world.run(scene.world.now + 3)
    assert not scene.nats.streams
    remake = scene.run("maker", lambda bus: asyncio.sleep(0))
    until(scene, lambda: view.resets == 1)
    assert remake.failure is None


def test_the_store_of_a_running_server_is_its_own(scene: Scene) -> None:
    with pytest.raises(RuntimeError, match="stop it first"):
        scene.nats.empty()


def test_a_user_gets_no_further_than_its_rights(scene: Scene) -> None:
    rights = Rights("writer", [f"$KV.{LEDGER}.mine.*"], ["_INBOX_writer.>"])
    outcomes: list[object] = []

    async def main(bus: Bus) -> None:
        ledger = bus.ledger()
        outcomes.append(await ledger.commit([Write("mine.a", b"1", 0)]))
        outcomes.append(await ledger.commit([Write("yours.a", b"1", 0)]))
        outcomes.append(await ledger.commit([Write("mine.b", b"1", 0), Write("yours.b", b"1", 0)]))
        outcomes.append(await ledger.commit([Write("mine.c", b"1", 0)]))

    scene.follow("reader")
    until(scene, lambda: f"KV_{LEDGER}" in scene.nats.streams)
    scene.run("writer", main, rights)
    until(scene, lambda: len(outcomes) == 4)
    assert sorted(scene.stored()) == ["mine.a", "mine.c"]
    assert [type(outcome).__name__ for outcome in outcomes] == ["Committed", "Refused", "Refused", "Committed"]
    assert list(rights.denied) == [
        f"writer may not publish to $KV.{LEDGER}.yours.a",
        f"writer may not publish to $KV.{LEDGER}.yours.b",
    ]
    assert rights.judged >= 6


def test_who_may_not_listen_hears_nothing(scene: Scene) -> None:
    rights = Rights("listener", [], ["_INBOX_listener.>", "berth.v1.svc.listener.>"])
    heard: list[bytes] = []

    async def answer(data: bytes) -> bytes:
        heard.append(data)
        return b"yes"

    async def listen(bus: Bus) -> None:
        await bus.serve("listener", "1.0.0", {"status": answer})
        await bus.serve("another", "1.0.0", {"status": answer})

    async def ask(bus: Bus) -> None:
        await asyncio.gather(*(bus.ask_all(f"berth.v1.svc.{name}.status", name.encode(), wait_s=1) for name in NAMES))

    scene.run("listener", listen, rights)
    scene.world.run(scene.world.now + 2)
    scene.run("asker", ask)
    until(scene, lambda: heard)
    scene.world.run(scene.world.now + 5)
    assert heard == [b"listener"]
    assert "listener may not subscribe to berth.v1.svc.another.status" in rights.denied
