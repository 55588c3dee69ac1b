"""Services as simulated processes: what they are given, how they end, and how they come again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
import structlog

from berth.bus.port import BusPort
from berth.bus.settings import BusSettings
from berth.runtime import Context, ServiceSettings
from berth.telemetry import get_logger
from berth.testing.simulation.journal import Journal
from berth.testing.simulation.process import Process
from berth.testing.simulation.services import Host, Replica, ServiceSpec
from berth.testing.simulation.world import World

module_log = get_logger("berth.toy")


class Bus:
    """Remembers that it was closed."""

    def __init__(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Toy:
    """A service that writes down what happens to it, and does what a test says."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.buses: list[Bus] = []
        self.fails_at_s = float("inf")

    async def connect(self, process: Process, settings: BusSettings, service: str) -> BusPort:
        await asyncio.sleep(0.01)
        self.buses.append(Bus())
        return cast(BusPort, self.buses[-1])

    async def main(self, ctx: Context[ServiceSettings]) -> None:
        ctx.log.info("up", instance=ctx.instance, level=ctx.settings.log_level)
        module_log.warning("of a module")
        logging.getLogger("berth.lib").warning("of a %s", "library")
        ctx.spawn(self.helper(ctx), name="helper")
        self.seen.append(f"start {ctx.instance} {ctx.random.random():.6f}")
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.clock.sleep(1)
            self.seen.append("drained")

    async def helper(self, ctx: Context[ServiceSettings]) -> None:
        await ctx.clock.sleep(self.fails_at_s if self.fails_at_s < 1e9 else 1e9)
        raise ValueError("the helper is tired")


@pytest.fixture
def world() -> Iterator[World]:
    with World(5) as made:
        yield made


@pytest.fixture
def journal(world: World) -> Iterator[Journal]:
    with Journal(world) as made:
        yield made


def run(world: World, journal: Journal, toy: Toy, **spec: Any) -> tuple[Host, Replica]:
    host = Host(world, journal, bus=toy.connect, restart_s=(2.0, 3.0))
    (replica,) = host.run(ServiceSpec(name="toy", settings_type=ServiceSettings, main=toy.main, **spec))
    return host, replica


def test_a_service_gets_settings_clock_chance_and_a_name(world: World, journal: Journal) -> None:
    toy = Toy()
    _, replica = run(world, journal, toy, environ={"BERTH_LOG_LEVEL": "debug"})
    world.run(1)
    assert replica.ready
    assert replica.context is not None
    assert replica.context.clock.now() == world.wall()
    assert toy.seen[0].startswith("start toy-0")
    (line,) = journal.about("level='debug'")
    assert "toy-0#1" in line


def test_all_logging_comes_into_the_journal_and_back_out_of_it(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()  # another test of this interpreter may have set something up
    with Journal(world) as journal:
        run(world, journal, Toy())
        world.run(1)
        assert [len(journal.about(words)) for words in ("of a module", "of a library")] == [1, 1]
        assert capfd.readouterr() == ("", "")
    logging.getLogger("berth.lib").warning("after it")
    assert journal.about("after it") == []
    assert structlog.get_config() == before


def test_a_killed_service_comes_again_with_its_name_and_nothing_else(world: World, journal: Journal) -> None:
    toy = Toy()
    host, replica = run(world, journal, toy)
    world.run(1)
    replica.kill()
    world.run(2.5)
    assert not replica.up
    world.run(5)
    assert (replica.up, replica.starts, host.failures) == (True, 2, [])
    assert [text.split()[:2] for text in toy.seen] == [["start", "toy-0"]] * 2
    assert toy.seen[0] != toy.seen[1]
    assert [bus.closed for bus in toy.buses] == [False, False]


def test_a_failed_task_ends_the_process_and_is_told(world: World, journal: Journal) -> None:
    toy = Toy()
    toy.fails_at_s = 10.0
    host, replica = run(world, journal, toy)
    world.run(12)
    assert not replica.up
    assert [(str(failure.error), failure.process) for failure in host.failures] == [("the helper is tired", "toy-0#1")]
    assert toy.seen[-1] == "drained"
    assert toy.buses[0].closed
    assert any("task failed" in line and "ValueError" in line for line in journal.about())
    world.run(15)
    assert replica.up
    assert host.unseen_failures() == []


def test_sigterm_lets_it_finish(world: World, journal: Journal) -> None:
    toy = Toy()
    host, replica = run(world, journal, toy)
    world.run(1)
    replica.stop()
    world.run(60)
    assert toy.seen[-1] == "drained"
    assert toy.buses[0].closed
    assert (replica.up, host.failures, host.unseen_failures()) == (False, [], [])
    replica.start()
    world.run(61)
    assert replica.up


def test_down_stays_down(world: World, journal: Journal) -> None:
    host, replica = run(world, journal, Toy())
    world.run(1)
    replica.down()
    world.run(60)
    assert (replica.up, host.of("toy"), host.of("other")) == (False, [replica], [])
