"""Estimates of a solver: worked out in a copy, shown beside the reasons, judged by what came of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts.question import WhyQuestion
from berth.placement_solver.estimating import Estimating, span, starts_of
from berth.placement_solver.why import answer
from berth.rules.times import text_of
from berth.runtime.snapshot import SnapshotFailed, in_snapshot
from berth.testing.builders import pod

STAYS_S = 600.0


class World:
    """A node for two pods, on which some have come and ended, each after ten minutes."""

    def __init__(self, solving: type[Any], copies: Callable[..., Awaitable[bytes]] = in_snapshot) -> None:
        self.run = solving()
        self.bench = SolverBench(self.run)
        self.run.node("n0", cpu=2000)
        self.estimating = Estimating(self.run.cluster, self.bench.rounds.readiness, self.bench.clock, 30.0, copies)
        self.now(10_000.0)
        for index in range(25):
            self.runs(f"old-{index}", began=self.bench.clock.time)
            self.now(self.bench.clock.time + STAYS_S + index)
            self.run.delete_pod(f"old-{index}")

    def now(self, at: float) -> None:
        self.bench.clock.time = at
        self.bench.rounds.tell_time()

    def runs(self, name: str, began: float) -> None:
        self.run.pod(pod(name).requests(cpu=1000).on("n0").set(scheduled=text_of(began)))

    async def wait(self, name: str) -> None:
        self.run.pod(pod(name).requests(cpu=1000))
        await self.bench.until_idle()

    def said(self, name: str) -> str:
        found = answer(self.run.cluster, WhyQuestion(namespace="default", name=name))
        return self.estimating.beside(found).facts.get("start", "")


@pytest.fixture
def world(solving: type[Any]) -> World:
    return World(solving)


async def test_who_waits_is_told_when_it_will_start_and_the_record_grows(world: World) -> None:
    began = world.bench.clock.time
    world.runs("a", began - 300.0)
    world.runs("b", began - 100.0)
    await world.wait("next")
    assert world.said("next") == ""
    await world.estimating.look()
    assert "at even odds" in world.said("next")
    assert "put to the test" in world.said("next")
    world.now(began + 330.0)
    world.run.delete_pod("a")
    await world.bench.until_idle()
    assert world.bench.placed() == {"next": "n0"}
    world.estimating.follow()
    assert world.estimating.bands.record.known == 1
    assert world.said("next") == "", "it has a place"


async def test_a_copy_that_fails_says_nothing(solving: type[Any]) -> None:
    async def fails(work: Callable[[], bytes], limit_s: float) -> bytes:
        raise SnapshotFailed("late")

    world = World(solving, fails)
    world.runs("a", world.bench.clock.time)
    world.runs("b", world.bench.clock.time)
    await world.wait("next")
    await world.estimating.look()
    assert world.said("next") == ""


async def test_one_that_is_deleted_is_not_judged(world: World) -> None:
    world.runs("a", world.bench.clock.time)
    world.runs("b", world.bench.clock.time)
    await world.wait("next")
    await world.estimating.look()
    world.run.delete_pod("next")
    world.estimating.follow()
    assert world.estimating.bands.record.known == 0
    assert not list(world.estimating.bands.open())


async def test_what_can_never_start_has_no_estimate(world: World) -> None:
    world.run.pod(pod("large").requests(cpu=9000))
    world.runs("a", world.bench.clock.time)
    await world.bench.until_idle()
    assert starts_of(world.run.cluster, world.bench.clock.time, lambda: False) == {}


def test_spans() -> None:
    assert [span(each) for each in (40, 700, 20_000, 300_000)] == ["40 s", "12 min", "6 h", "3 days"]
