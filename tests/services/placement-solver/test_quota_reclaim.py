"""Quota reclaim in the rounds: what was lent comes back, and within a group the more important pod goes first. Whatever
is proposed in random worlds, the verifier agrees with it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector
from berth.contracts.ledger import Decision
from berth.contracts.state import PodDisruptionBudget
from berth.placement_solver import metrics
from berth.rules.preemption import BY_QUOTA
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.testing.builders import PodBuilder, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return solving()


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def sized(name: str, group: str, cores: int, priority: int = 0, **fields: Any) -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).template(priority=priority).set(**fields)
    return made.label(names.LABEL_QUOTA_NAME, group)


def charged(builder: PodBuilder, group: str, node: str, tree: str = "") -> PodBuilder:
    return builder.annotation(names.ANNOTATION_QUOTA, f"{tree}/{group}").on(node)


def cpu(cores: int) -> dict[str, int]:
    return {names.CPU: cores * 1000}


def limits(run: Any, name: str, *, promised: int = 0, most: int = 100, runtime: int, **fields: Any) -> None:
    more = {"effective_min": cpu(promised), **fields}
    run.quota(name, min=cpu(promised), max=cpu(most), runtime=cpu(runtime), **more)


def nomination(run: Any, name: str) -> Decision | None:
    entry = run.cluster.book.ledger.decisions.get(("default", name))
    return entry.decision if entry is not None and entry.decision.nominates else None


def victims(run: Any, name: str) -> list[str]:
    found = nomination(run, name)
    assert found is not None
    assert found.eviction_reason == BY_QUOTA
    return sorted(each.name for each in found.victims)


async def test_what_was_lent_comes_back_to_a_group_within_its_min(run: Any, bench: SolverBench) -> None:
    """Nodes are full: of the group that is above its runtime the least important pod leaves, whatever its priority."""
    run.node("n0", cpu=4000)
    limits(run, "owner", promised=2, runtime=2)
    limits(run, "borrower", promised=2, runtime=2)
    for at in range(4):
        run.pod(charged(sized(f"lent-{at}", "borrower", 1, priority=9 - at), "borrower", "n0"))
    run.pod(sized("mine", "owner", 1, priority=0))
    await bench.until_idle()
    assert victims(run, "mine") == ["lent-3"]
    decision = nomination(run, "mine")
    assert decision is not None
    assert {subjects.quota_account("", group) for group in ("owner", "borrower")} <= set(decision.accounts)
    run.delete_pod("lent-3")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"mine": "n0"}


@pytest.mark.parametrize(("owner_min", "runtime"), [(0, 2), (2, 4)], ids=["above its min", "nothing is lent"])
async def test_nobody_leaves_for_more_than_was_promised(
    run: Any, bench: SolverBench, owner_min: int, runtime: int
) -> None:
    run.node("n0", cpu=4000)
    limits(run, "owner", promised=owner_min, runtime=2)
    limits(run, "borrower", promised=2, runtime=runtime)
    for at in range(4):
        run.pod(charged(sized(f"lent-{at}", "borrower", 1), "borrower", "n0"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert bench.placed() == {}


async def test_it_is_tried_again_when_the_runtimes_change(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000)
    limits(run, "owner", promised=2, runtime=2)
    limits(run, "borrower", promised=2, runtime=4)
    for at in range(4):
        run.pod(charged(sized(f"lent-{at}", "borrower", 1), "borrower", "n0"))
    run.pod(sized("mine", "owner", 2))
    await bench.until_idle()
    assert bench.placed() == {}
    limits(run, "borrower", promised=2, runtime=2)
    bench.clock.time += 20
    await bench.until_idle()
    assert len(victims(run, "mine")) == 2


async def test_the_furthest_over_gives_first(run: Any, bench: SolverBench) -> None:
    for node in ("n0", "n1"):
        run.node(node, cpu=4000)
    limits(run, "owner", promised=1, runtime=1)
    limits(run, "a-little", promised=3, runtime=3)
    limits(run, "b-far", promised=1, runtime=1)
    for at in range(4):
        run.pod(charged(sized(f"little-{at}", "a-little", 1), "a-little", "n0"))
        run.pod(charged(sized(f"far-{at}", "b-far", 1, priority=5), "b-far", "n1"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert [name[:3] for name in victims(run, "mine")] == ["far"]


@pytest.mark.parametrize("stays", [True, False])
async def test_pods_of_the_default_group_leave_for_its_own_if_the_profile_says_so(
    run: Any, bench: SolverBench, stays: bool
) -> None:
    args = {"disableDefaultQuotaPreemption": stays}
    assert run.configure(pluginConfig=[{"name": "ElasticQuota", "args": args}])
    run.node("n0", cpu=4000)
    limits(run, DEFAULT_GROUP, most=2, runtime=2)
    run.pod(charged(sized("less", DEFAULT_GROUP, 2), DEFAULT_GROUP, "n0"))
    run.pod(sized("more", DEFAULT_GROUP, 1, priority=5))
    await bench.until_idle()
    assert (nomination(run, "more") is None) is stays


async def test_a_group_gives_no_more_than_it_has_too_much(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000)
    limits(run, "owner", promised=3, runtime=3)
    limits(run, "borrower", promised=2, runtime=3)
    for at in range(4):
        run.pod(charged(sized(f"lent-{at}", "borrower", 1), "borrower", "n0"))
    run.pod(sized("mine", "owner", 2))
    await bench.until_idle()
    assert bench.placed() == {}


async def test_within_a_group_lower_pods_leave_on_whatever_node(run: Any, bench: SolverBench) -> None:
    """Only quota is short: the pod goes where there is room, and pods elsewhere leave for it."""
    for node in ("n0", "n1"):
        run.node(node, cpu=4000)
    limits(run, "team", runtime=4)
    run.pod(charged(sized("low", "team", 2, priority=1), "team", "n0"))
    run.pod(charged(sized("lower", "team", 2, priority=0), "team", "n0"))
    run.pod(charged(sized("other", "else", 2), "else", "n0"))
    limits(run, "else", runtime=100)
    run.pod(sized("high", "team", 2, priority=5))
    await bench.until_idle()
    assert victims(run, "high") == ["lower"]
    decision = nomination(run, "high")
    assert decision is not None
    assert decision.node == "n1"
    assert decision.victims[0].node == "n0"
    run.delete_pod("lower")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"high": "n1"}


async def test_equal_pods_of_a_group_stay(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=8000)
    limits(run, "team", runtime=2)
    run.pod(charged(sized("equal", "team", 2, priority=5), "team", "n0"))
    run.pod(sized("high", "team", 2, priority=5))
    await bench.until_idle()
    assert bench.placed() == {}


async def test_the_max_of_an_ancestor_is_freed_by_those_below_it(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=100_000)
    limits(run, "dept", runtime=4, most=4, is_parent=True)
    limits(run, "mine", promised=2, runtime=2, parent="dept", ancestors=["dept"])
    limits(run, "sibling", promised=2, runtime=2, parent="dept", ancestors=["dept"])
    limits(run, "stranger", runtime=1)
    for at in range(4):
        run.pod(charged(sized(f"lent-{at}", "sibling", 1), "sibling", "n0"))
        run.pod(charged(sized(f"far-{at}", "stranger", 1), "stranger", "n0"))
    run.pod(sized("owner", "mine", 1))
    await bench.until_idle()
    assert [name[:4] for name in victims(run, "owner")] == ["lent"]


async def test_those_that_berth_has_placed_itself_give_back_as_well(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=16_000)
    limits(run, "top", promised=4, runtime=4, most=4, is_parent=True)
    limits(run, "mine", promised=2, runtime=0, parent="top", ancestors=["top"])
    limits(run, "theirs", promised=2, runtime=4, parent="top", ancestors=["top"])
    for name in ("one", "two"):
        run.pod(sized(name, "theirs", 2))
    await bench.until_idle()
    for name in ("one", "two"):
        run.bind(sized(name, "theirs", 2))
    run.pod(sized("owner", "mine", 2))
    await bench.until_idle()
    limits(run, "mine", promised=2, runtime=2, parent="top", ancestors=["top"])
    limits(run, "theirs", promised=2, runtime=2, parent="top", ancestors=["top"])
    bench.clock.time += 20
    await bench.until_idle()
    assert len(victims(run, "owner")) == 1


async def test_whom_a_budget_or_a_label_protects_stays(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000)
    limits(run, "owner", promised=2, runtime=2)
    limits(run, "borrower", promised=1, runtime=1)
    selector = LabelSelector(match_labels={"app": "kept"})
    budget = PodDisruptionBudget(namespace="default", name="b", version=1, selector=selector)
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(charged(sized("kept-0", "borrower", 1).label("app", "kept"), "borrower", "n0"))
    run.pod(charged(sized("kept-1", "borrower", 1).label(names.LABEL_QUOTA_PREEMPTIBLE, "false"), "borrower", "n0"))
    run.pod(charged(sized("free", "borrower", 1, priority=9), "borrower", "n0"))
    run.pod(charged(sized("also", "borrower", 1, priority=9), "borrower", "n0"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert victims(run, "mine") in (["free"], ["also"])


async def test_who_is_leaving_already_is_waited_for(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=8000)
    limits(run, "team", runtime=4)
    run.pod(charged(sized("goes", "team", 2, priority=9, deleting=True), "team", "n0"))
    run.pod(charged(sized("low", "team", 2, priority=0), "team", "n0"))
    run.pod(sized("high", "team", 2, priority=5))
    await bench.until_idle()
    assert nomination(run, "high") is None
    run.delete_pod("goes")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"high": "n0"}


class Held(NamedTuple):
    node: int
    group: int
    cores: int
    priority: int
    protected: bool


held = st.lists(
    st.builds(
        Held,
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(1, 2),
        st.integers(0, 3),
        st.sampled_from([False] * 4 + [True]),
    ),
    max_size=8,
)
shares = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=3, max_size=3)
waits = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(held, shares, waits, st.integers(3, 12))
def test_the_verifier_agrees_with_every_proposal(
    solving: type[Any], there: list[Held], of: list[tuple[int, int]], comes: list[tuple[int, int, int]], above: int
) -> None:
    run = solving()
    bench = SolverBench(run, preempts=True)
    for node in ("n0", "n1"):
        run.node(node, cpu=4000)
    limits(run, "top", runtime=above, most=above, is_parent=True)
    for at, (promised, runtime) in enumerate(of):
        limits(run, f"g{at}", promised=promised, runtime=max(promised, runtime), parent="top", ancestors=["top"])
    for at, each in enumerate(there):
        made = sized(f"held-{at}", f"g{each.group}", each.cores, each.priority)
        if each.protected:
            made.label(names.LABEL_QUOTA_PREEMPTIBLE, "false")
        run.pod(charged(made, f"g{each.group}", f"n{each.node}"))
    for at, (group, cores, priority) in enumerate(comes):
        run.pod(sized(f"waits-{at}", f"g{group}", cores, priority))
    before = metrics.REJECTED_PLANS._value.get()
    asyncio.run(bench.until_idle())
    assert metrics.REJECTED_PLANS._value.get() == before
    for entry in run.cluster.book.ledger.decisions.values():
        for victim in entry.decision.victims:
            at = int(victim.name.rpartition("-")[2])
            assert not there[at].protected


async def test_who_is_on_the_way_to_its_node_is_made_to_leave_once_it_is_there(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=2000)
    limits(run, "owner", promised=1, runtime=1)
    limits(run, "borrower", promised=1, runtime=2)
    for at in range(2):
        run.pod(sized(f"lent-{at}", "borrower", 1))
    await bench.until_idle()
    limits(run, "borrower", promised=1, runtime=1)
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert nomination(run, "mine") is None
    for at in range(2):
        run.bind(sized(f"lent-{at}", "borrower", 1))
    await bench.until_idle()
    bench.clock.time += 20
    await bench.until_idle()
    assert len(victims(run, "mine")) == 1


async def test_in_which_order_victims_are_found_does_not_matter(run: Any, bench: SolverBench) -> None:
    """One leaves the node, and another one that is less important and larger leaves for the limit above: the group is
    over its runtime when the smaller one begins, not once the larger one has left."""
    run.node("n0", cpu=4000)
    run.node("n1", cpu=4000, unschedulable=True)
    limits(run, "top", runtime=2, most=2, is_parent=True)
    limits(run, "owner", promised=2, runtime=2, parent="top", ancestors=["top"])
    limits(run, "borrower", runtime=2, parent="top", ancestors=["top"])
    limits(run, "stranger", runtime=3)
    run.pod(charged(sized("near", "borrower", 1, priority=5), "borrower", "n0"))
    run.pod(charged(sized("beside", "stranger", 3), "stranger", "n0"))
    run.pod(charged(sized("far", "borrower", 4, priority=0), "borrower", "n1"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert victims(run, "mine") == ["far", "near"]


async def test_what_a_pod_is_nominated_to_its_group_does_not_use_yet(run: Any, bench: SolverBench) -> None:
    """A group gives back nothing while what it really uses is within its runtime."""
    run.node("n0", cpu=4000)
    run.node("n1", cpu=1000)
    limits(run, "group", runtime=3)
    limits(run, "owner", promised=1, runtime=1)
    run.pod(pod("low").requests(cpu=4000).on("n0"))
    run.pod(charged(sized("kept", "group", 1), "group", "n1"))
    run.pod(sized("high", "group", 2, priority=9))
    await bench.until_idle()
    assert nomination(run, "high") is not None
    limits(run, "group", runtime=1)
    run.pod(sized("mine", "owner", 1))
    bench.clock.time += 20
    await bench.until_idle()
    assert nomination(run, "mine") is None
