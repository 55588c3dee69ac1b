"""Costs kept up row by row are those of working out everything, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.grants import device
from berth.placement_solver.core.classes import ClassTable
from berth.placement_solver.core.cost import FEW, Costs
from berth.placement_solver.core.policy import TURNING_OVER
from berth.placement_solver.core.prices.table import Prices
from berth.testing.builders import GI, gpu_slots, pod

NODES = 5


def classes(run: Any) -> list[Any]:
    """No request at all, one of each kind, and some that want devices."""
    wanted = [
        pod("empty"),
        pod("cpu").requests(cpu=700),
        pod("both").requests(cpu=1300, memory=3 * GI),
        pod("other").requests({"example.com/thing": 2}, cpu=100),
        pod("gpu").share(40).requests(cpu=500),
        pod("card").gpus(1).requests(cpu=900),
        pod("cards").gpus(2).requests(cpu=1000),
    ]
    run.pods(wanted)
    units, _ = run.cluster.batch(len(wanted))
    return [candidate.cls for unit in units for candidate in unit.candidates]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_few_changed_rows_cost_what_all_of_them_would(solving: Any, data: Any) -> None:
    run = solving()
    for index in range(NODES):
        run.node(f"n{index}", cpu=4000, memory=16 * GI, pods=4, extended={"example.com/thing": 4})
    run.devices("n0", gpu_slots(2))
    run.devices("n1", gpu_slots(2))
    run.devices("n2", gpu_slots(8))
    cluster = run.cluster
    costs, nodes = cluster.solver.costs, cluster.nodes
    known = classes(run)
    assert len(known) == 7
    grants = st.builds(
        lambda minor, percent: [device("gpu", minor, {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent})],
        st.integers(0, 7),
        st.integers(1, 100),
    )
    amounts = st.fixed_dictionaries(
        {names.CPU: st.integers(0, 3000), names.MEMORY: st.integers(0, 9 * GI), "example.com/thing": st.integers(0, 3)}
    )
    shares = st.lists(st.tuples(st.integers(1, 99), st.floats(0, 1)), max_size=3, unique_by=lambda each: each[0])
    for _ in range(data.draw(st.integers(1, 4))):
        for cls in known:
            costs.of(cls)
        if data.draw(st.booleans()):
            prices = Prices(tuple(sorted(data.draw(shares))), data.draw(st.sampled_from((0.0, 0.25, 1.0))))
            costs.use(prices, np.array(data.draw(st.lists(st.floats(0, 5), max_size=NODES))))
        for row, taken in data.draw(st.lists(st.tuples(st.integers(0, NODES - 1), amounts), max_size=FEW + 4)):
            nodes.take(row, taken, 1)
        for row, held in data.draw(st.lists(st.tuples(st.integers(0, 2), grants), max_size=8)):
            nodes.take_devices(row, held, 1)
        for cls in known:
            kept = costs.of(cls).copy()
            assert np.array_equal(kept, costs._work_out(cls, slice(0, NODES)))
            assert np.array_equal(kept, costs._work_out(cls, np.arange(NODES)))
            assert kept.tolist() == [costs._of_one(cls, row) for row in range(NODES)]
            anew = ClassTable(cluster.profiles).of(cls.template, [])
            from_scratch = Costs(nodes, cluster.solver.policy)
            from_scratch.use(costs.basis.prices, costs.basis.scarcity)
            fresh = from_scratch.ranked(anew)
            ranked = costs.ranked(cls)
            assert np.array_equal(ranked.values, fresh.values)
            assert ranked.first() == int(np.argmin(fresh.values))


def test_weights_that_a_profile_sets_hold_for_its_pods(solving: Any) -> None:
    """With its own weights the solver takes the emptier of two nodes, with those of the profile the fuller one."""
    run = solving()
    for name in ("n0", "n1"):
        run.node(name, cpu=64_000, memory=256 * GI)
        run.devices(name, gpu_slots(4))
    nodes, costs = run.cluster.nodes, run.cluster.solver.costs
    held = [device("gpu", minor, {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}) for minor in (0, 1)]
    nodes.take_devices(nodes.rows["n0"], held, 1)
    run.pods([pod("a").gpus(1).requests(cpu=100)])
    unit = run.cluster.batch(1)[0][0]
    fuller, emptier = nodes.rows["n0"], nodes.rows["n1"]
    cost = costs.of(unit.candidates[0].cls)
    assert cost[fuller] > cost[emptier]
    weights = {"filling": {"gpusLeft": 200}, "wholeReserve": 0.5}
    assert run.configure(pluginConfig=[{"name": "Berth", "args": {"nodeCost": weights}}])
    cost = costs.of(ClassTable(run.cluster.profiles).of(unit.candidates[0].object.template, []))
    assert cost[fuller] < cost[emptier]
    policy = run.cluster.policy
    assert (policy.filling.gpus_left, policy.reserve(0.0), policy.turning_over) == (200, 0.5, TURNING_OVER)
