"""What plans say they were made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.services.worlds.solver.bench import Clock, SolverBench

from berth.bus.port import Entry
from berth.contracts.codec import decode
from berth.contracts.ledger import Plan
from berth.contracts.round import Ground, Read
from berth.placement_solver.core.price import Basis
from berth.placement_solver.core.prices.stranding import Typical
from berth.placement_solver.core.prices.table import Prices
from berth.placement_solver.origins import TOLD_AGAIN_S, Origins, priced
from berth.placement_solver.origins.remaking import Remaker
from berth.placement_solver.reading import MISSED_MAX, Following
from berth.recording.grounds import Grounds, Known, named
from berth.testing.builders import pod


def entry(sequence: int, *, gap: bool = False) -> Entry:
    return Entry("k", b"", False, sequence, 0, gap, None)


def test_what_was_replaced_before_it_was_read_counts_until_the_end() -> None:
    following = Following()
    for each in (entry(3, gap=True), entry(4), entry(7, gap=True)):
        following.applied(each)
    assert following.read == Read(sequence=7, missed=[1, 2, 5, 6])
    following.end()
    following.applied(entry(8))
    assert (following.read, following.ended) == (Read(sequence=8), 7)


def test_more_than_can_be_named_is_said() -> None:
    following = Following()
    for number in range(MISSED_MAX + 1):
        assert not following.is_lost
        following.applied(entry(2 * number + 2, gap=True))
    assert following.is_lost


class Telling:
    def __init__(self, solving: type[Any]) -> None:
        self.run = solving()
        self.clock = Clock()
        self.bench = SolverBench(self.run, origins=Origins(self.run.cluster, self.clock, Ground(id="")))
        self.grounds = Grounds()

    async def plan(self) -> Plan:
        """The entry of a plan for one more pod."""
        self.run.pod(pod(f"p{self.run.version}").requests(cpu=100))
        await self.bench.until_idle()
        values = [value for key, value, deleted, _ in self.run.ledger.messages if ".plan." in key and not deleted]
        found = decode(values[-1], Plan)
        assert found.round is not None
        if found.round.told is not None:
            assert self.grounds.take(found.round.told) is None
        return found


@pytest.fixture
def telling(solving: type[Any]) -> Telling:
    return Telling(solving)


def told(plan: Plan) -> Ground | None:
    assert plan.round is not None
    return plan.round.told


async def test_the_ground_is_told_once_then_as_changes_and_in_full_again_after_a_while(telling: Telling) -> None:
    for number in range(16):
        telling.run.node(f"n{number}", cpu=4000)
    first = await telling.plan()
    assert told(first) is not None
    second = await telling.plan()
    assert told(second) is None
    assert second.round is not None
    found = telling.grounds.of(second.round.ground)
    assert found is not None
    assert found.nodes == tuple(f"n{number}" for number in range(16))
    telling.run.node("new", cpu=4000)
    changed = told(await telling.plan())
    assert changed is not None
    assert changed.renamed == {"new": 16}
    telling.clock.time += TOLD_AGAIN_S
    full = told(await telling.plan())
    assert full is not None
    assert (full.id, bool(full.nodes), full.after) == (changed.id, True, "")


def test_all_prices_come_back() -> None:
    prices = Prices(((25, 0.3), (50, 1 / 3)), 0.25, 0.15, (Typical(4000, 50, 1, 0.4),))
    basis = Basis(prices, np.array([0.0, 1.5, 0.0, 1 / 3]))
    nodes = ("a", "b", "c", "d")
    remaker = Remaker("s1", Known(named(priced(Ground(id=""), basis), nodes), nodes))
    found = remaker.cluster.solver.costs.basis
    assert found.prices == prices
    assert all(prices), "each field says something"
    assert found.scarcity.tolist() == basis.scarcity.tolist()


async def test_what_was_not_committed_is_told_again(telling: Telling) -> None:
    telling.run.node("n0", cpu=4000)
    telling.bench.ledger.drop = 1
    assert told(await telling.plan()) is not None
    assert told(await telling.plan()) is None


async def test_a_gang_says_how_many_had_to_be_placed(telling: Telling) -> None:
    telling.run.node("n0", cpu=4000)
    for number in range(2):
        telling.run.pod(pod(f"g{number}").requests(cpu=100).gang("g", 2))
    plan = await telling.plan()
    assert plan.round is not None
    assert plan.round.groups == {"default/g": {"default/g": 2}}
