"""What pods that arrive cannot use: arrays and plain numbers say the same, and what one works out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.placement_solver.core.nodes import CPU
from berth.placement_solver.core.prices.scarcity import NOWHERE
from berth.placement_solver.core.prices.stranding import TYPICAL, Stranding, Typical, typical_of
from berth.placement_solver.core.prices.table import Prices
from berth.placement_solver.core.prices.workload import Workload
from berth.testing.builders import gpu_grant, gpu_slots, pod
from berth.transaction.claims import Claim

KINDS = (Typical(4000, 50, 1, 0.5), Typical(8000, 100, 1, 0.375), Typical(64_000, 100, 8, 0.125))
PERCENTS = st.sampled_from([0, 10, 40, 50, 90, 100])


def by_percent(cards: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((percent, cards.count(percent)) for percent in dict.fromkeys(cards) if percent)


@given(
    rows=st.lists(st.tuples(st.integers(0, 80), st.lists(PERCENTS, min_size=8, max_size=8)), min_size=1, max_size=6),
    asked=st.sampled_from([(1, 10), (1, 50), (1, 100), (2, 100), (2, 40), (8, 100)]),
    cores=st.integers(0, 16),
)
def test_one_row_is_told_as_many_are(rows: list[tuple[int, list[int]]], asked: tuple[int, int], cores: int) -> None:
    cards, percent = asked
    stranding = Stranding(KINDS, 1000 * cores, cards, percent)
    cpu = np.array([1000 * each for each, _ in rows])
    free = np.array([each for _, each in rows], np.int16).T
    found = stranding.more(cpu, free).tolist()
    for place, (each, listed) in enumerate(rows):
        if sum(one >= percent for one in listed) >= cards:
            assert stranding.more_on_one(1000 * each, by_percent(listed)) == found[place]


def test_what_is_stranded_is_what_nobody_who_arrives_can_use() -> None:
    # With 16 cores and two cards: half of those who arrive can use both, and so can those who want a whole one.
    two = ((100, 2),)
    share = Stranding(KINDS, 4000, 1, 50)
    # Then 12 cores: half a card is lost to who wants a whole one, and all is lost to who wants eight, before and after.
    before = 0.125 * 2.0
    after = 0.375 * 0.5 + 0.125 * 1.5
    assert share.more_on_one(16_000, two) == pytest.approx(after - before)
    # One that takes nearly all cores leaves both cards to nobody.
    greedy = Stranding(KINDS, 14_000, 1, 10)
    assert greedy.more_on_one(16_000, two) == pytest.approx(1.9 - before)


def test_those_that_arrive_most_stand_for_all(solving: Any) -> None:
    run = solving()
    run.node("n0", cpu=64_000)
    run.devices("n0", gpu_slots(8))
    builders = [pod(f"s{size}").share(size).requests(cpu=1000) for size in range(20, 40)]
    builders += [pod("two").gpus(2).requests(cpu=2000), pod("none").requests(cpu=2000)]
    run.pods(builders)
    units, _ = run.cluster.batch(len(builders))
    classes = {each.name[1]: each.cls for unit in units for each in unit.candidates}
    for cls in classes.values():
        run.cluster.solver.costs.of(cls)
    workload = Workload()
    for name, cls in classes.items():
        for _ in range(30 if name == "two" else 1):
            workload.came(cls)
    found = typical_of(workload)
    assert len(found) == TYPICAL
    assert found[0][:3] == (2000, 100, 2)
    assert sum(each.part for each in found) == pytest.approx(1.0)
    workload.came(classes["s20"])
    assert typical_of(workload, found) is found
    for _ in range(100):
        workload.came(classes["s20"])
    assert typical_of(workload, found)[0][:3] == (1000, 20, 1)


@pytest.mark.parametrize("builder", [pod("a").share(30), pod("a").gpus(1), pod("a").gpus(2), pod("a")])
@pytest.mark.parametrize("turning_over", [0.0, 0.25, 1.0])
def test_costs_of_one_row_are_those_of_many(solving: Any, builder: Any, turning_over: float) -> None:
    run = solving()
    for at, cpu in enumerate((8000, 24_000, 64_000)):
        run.node(f"n{at}", cpu=cpu)
        run.devices(f"n{at}", gpu_slots(4))
    grants = (gpu_grant(0, 30), gpu_grant(1, 100))
    claim = Claim(name=("default", "x"), uid="x", node="n1", amounts={"cpu": 3000}, grants=grants)
    run.cluster.capacity.apply(claim, 1)
    run.pod(builder.requests(cpu=2000))
    units, _ = run.cluster.batch(1)
    cls, costs = units[0].candidates[0].cls, run.cluster.solver.costs
    costs.use(Prices(((30, 0.3), (70, 0.7)), turning_over, 0.0, KINDS), NOWHERE)
    cost = costs.of(cls)
    assert run.cluster.nodes.free[CPU, :3].tolist() == [8000, 21_000, 64_000]
    assert np.isfinite(cost).all()
    assert [cls.price.of_one(row) for row in range(3)] == cost.tolist()
