"""Explanations of refusals: necessary, sufficient and smallest by brute force, and repairs that repair."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.worlds.solver.explained import judged

from berth.contracts import names
from berth.contracts.explanation import Explanation
from berth.contracts.kube import Taint
from berth.placement_solver.core.explanation.explaining import explained
from berth.placement_solver.core.explanation.hitting import smallest_hitting
from berth.placement_solver.explaining import means_of
from berth.testing.builders import GI, gpu_grant, gpu_slots, pod

CASES = 40
"""`tests/bench/bench_explanations.py` judges a thousand."""


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return solving()


def told(run: Any) -> Explanation:
    (unit,), _ = run.cluster.batch(100)
    found = explained(unit, means_of(run.cluster))
    assert found is not None
    return found


def forbidders(found: Explanation) -> list[tuple[str, str]]:
    return [(each.code, each.what) for each in found.forbidden_by]


def repairs(found: Explanation) -> dict[str, str]:
    return {"+".join(each.kinds): each.message for each in found.repairs}


@pytest.mark.parametrize("seed", range(CASES))
def test_random_worlds(solving: type[Any], seed: int) -> None:
    assert judged(seed, solving).wrong == []


@given(st.lists(st.integers(0, 63), max_size=8))
def test_the_smallest_set_that_hits_all(sets: list[int]) -> None:
    found = smallest_hitting(sets)
    bits = [1 << index for index in range(6)]
    hitting = [
        sum(chosen)
        for size in range(7)
        for chosen in combinations(bits, size)
        if all(each & sum(chosen) for each in sets)
    ]
    if not hitting:
        assert found is None
        return
    assert found is not None
    assert found.is_smallest
    assert found.bits in hitting
    assert found.bits.bit_count() == hitting[0].bit_count()


def test_two_constraints_forbid_it_together(run: Any) -> None:
    """The tainted node is large enough, the other one is not."""
    run.node("small", cpu=1000)
    run.node("tainted", cpu=9000, taints=[Taint(key="own", effect="NoSchedule")])
    run.pod(pod("p").requests(cpu=4000))
    found = told(run)
    assert forbidders(found) == [("TaintToleration", ""), ("NodeResourcesFit", names.CPU)]
    assert found.nearest is not None
    assert found.nearest.node == "small"
    assert found.nearest.lacking == {names.CPU: 3000}
    assert repairs(found) == {"ask": "ask for at most 1 cpu, which node small has free"}


def test_what_forbids_everything_is_enough(run: Any) -> None:
    run.node("n0", cpu=1000, unschedulable=True)
    run.quota("team", max={names.CPU: 1000})
    run.pod(pod("p").requests(cpu=2000).quota("team"))
    found = told(run)
    assert forbidders(found) == [("quota", "team")]
    assert "raise max and min of quota team to 2 cpu" not in repairs(found).values()


def test_a_limit_is_raised_and_pods_leave(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(pod("other").requests(cpu=3000).on("n0"))
    run.quota("team", max={names.CPU: 1000})
    run.pod(pod("p").requests(cpu=4000).quota("team"))
    assert repairs(told(run)) == {
        "ask": "ask for at most 1 cpu, which node n0 has free",
        "raise+free": "raise min and max of quota team to 4 cpu, and have default/other leave node n0",
        "raise+add": "raise min and max of quota team to 4 cpu, and add a node like n0",
    }


def test_fewest_pods_leave(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pods(pod(f"h{number}").requests(cpu=1000).on("n0") for number in range(2))
    run.pod(pod("large").requests(cpu=2000).on("n0"))
    run.pod(pod("p").requests(cpu=2000))
    found = told(run)
    (free,) = [each for each in found.repairs if each.kinds == ["free"]]
    assert free.pods == ["default/h0", "default/h1"], "those that take least"


@pytest.mark.parametrize("has_another", [False, True])
def test_a_strict_gang_leaves_whole_or_not_at_all(run: Any, has_another: bool) -> None:
    for number in range(3):
        run.node(f"n{number}", cpu=4000)
        run.pod(pod(f"g{number}").requests(cpu=4000).gang("g", 3).on(f"n{number}"))
    if has_another:
        run.node("n3", cpu=4000)
        run.pods(pod(f"h{number}").requests(cpu=2000).on("n3") for number in range(2))
    run.pod(pod("p").requests(cpu=2000))
    all_of_it = "have default/g0, default/g1 and default/g2 leave node n0 and others"
    assert repairs(told(run))["free"] == ("have default/h1 leave node n3" if has_another else all_of_it)


@pytest.mark.parametrize(("minimum", "leave"), [(2, 1), (3, 3)])
def test_what_a_strict_gang_can_spare_leaves_alone(run: Any, minimum: int, leave: int) -> None:
    run.node("n0", cpu=4000)
    run.pods(pod(f"g{number}").requests(cpu=1000).gang("g", minimum).on("n0") for number in range(3))
    run.pod(pod("p").requests(cpu=2000))
    (free,) = [each for each in told(run).repairs if each.kinds == ["free"]]
    assert len(free.pods) == leave


def test_fewer_devices(run: Any) -> None:
    run.node("n0")
    run.devices("n0", gpu_slots(4))
    run.pod(pod("half").share(50).on("n0", [gpu_grant(0, 50)]))
    run.pod(pod("p").gpus(4))
    found = told(run)
    assert forbidders(found) == [("DeviceShare", "")]
    assert repairs(found)["ask"] == "ask for at most 3 nvidia.com/gpu"


def test_a_gang_is_forbidden_by_what_all_of_it_needs(run: Any) -> None:
    run.node("n0", cpu=4000, memory=100 * GI)
    run.pods(pod(f"g{number}").requests(cpu=1500, memory=GI).gang("g", 3) for number in range(3))
    found = told(run)
    assert forbidders(found) == [("NodeResourcesFit", names.CPU), ("gang", "default/g")]
    assert repairs(found)["add"] == "add a node like n0"


def test_a_gang_for_which_the_quota_is_too_small(run: Any) -> None:
    run.node("n0")
    run.quota("team", max={names.CPU: 4000})
    run.pods(pod(f"g{number}").requests(cpu=1500).gang("g", 3).quota("team") for number in range(3))
    found = told(run)
    assert forbidders(found) == [("quota", "team"), ("gang", "default/g")]
    assert "raise" in repairs(found)


def test_a_pod_that_needs_a_reservation(run: Any) -> None:
    run.node("n0")
    run.pod(pod("p").requests(cpu=1000).annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"name": "none"}'))
    assert forbidders(told(run)) == [("reservation", "")]


def test_without_nodes(run: Any) -> None:
    run.pod(pod("p").requests(cpu=1000))
    assert forbidders(told(run)) == [("nodes", "")]


def test_what_fits_is_not_explained(run: Any) -> None:
    run.node("n0")
    run.pod(pod("p").requests(cpu=1000))
    (unit,), _ = run.cluster.batch(100)
    assert explained(unit, means_of(run.cluster)) is None
