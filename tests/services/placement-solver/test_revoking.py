"""The loop of monitorAllQuotas: groups that are above their runtime for too long give back, whoever waits. Whatever is
named in random worlds, the verifier agrees with it."""

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
from berth.rules.eviction_notes import Mark, mark_note
from berth.rules.preemption import BY_QUOTA
from berth.testing.builders import PodBuilder, pod
from berth.transaction.revocations import name_of_group

DELAY_S = 60.0


def monitored(run: Any) -> Any:
    args = {"monitorAllQuotas": True, "delayEvictTime": f"{DELAY_S:.0f}s"}
    assert run.configure(pluginConfig=[{"name": "ElasticQuota", "args": args}])
    for at in range(2):
        run.node(f"n{at}", cpu=8000)
    return run


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return monitored(solving())


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def held(name: str, group: str, cores: int, priority: int = 0, node: str = "n0") -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).template(priority=priority).label(names.LABEL_QUOTA_NAME, group)
    return made.annotation(names.ANNOTATION_QUOTA, f"/{group}").on(node)


def cpu(cores: int) -> dict[str, int]:
    return {names.CPU: cores * 1000}


def limits(run: Any, name: str, runtime: int, over_since_s: float = 0.0, **fields: Any) -> None:
    run.quota(name, max=cpu(100), runtime=cpu(runtime), over_since_ms=int(over_since_s * 1000), **fields)


def revoked(run: Any, group: str = "team") -> list[str] | None:
    entry = run.cluster.book.ledger.decisions.get(name_of_group("", group))
    return None if entry is None else [victim.name for victim in entry.decision.victims]


def revocation(run: Any, group: str = "team") -> Decision:
    decision: Decision = run.cluster.book.ledger.decisions[name_of_group("", group)].decision
    return decision


async def look(bench: SolverBench, after_s: float = 2.0) -> None:
    bench.clock.time += after_s
    bench.rounds.tick()
    await bench.rounds.revoke()
    await bench.rounds.tidy()


def four(run: Any) -> None:
    for at in range(4):
        run.pod(held(f"p{at}", "team", 1, priority=at))


async def test_a_group_gives_back_what_it_has_had_too_much_for_too_long(run: Any, bench: SolverBench) -> None:
    """Nobody waits; the least important leave, and all that is charged is stamped."""
    limits(run, "team", runtime=2, over_since_s=bench.clock.time)
    four(run)
    await look(bench, DELAY_S - 1)
    assert revoked(run) is None
    await look(bench)
    assert revoked(run) == ["p1", "p0"]
    decision = revocation(run)
    assert (decision.nominates, decision.eviction_reason, decision.node) == (True, BY_QUOTA, "")
    assert subjects.quota_account("", "team") in decision.accounts


async def test_nobody_leaves_where_no_profile_monitors(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=8000)
    bench = SolverBench(run, preempts=True)
    limits(run, "team", runtime=2, over_since_s=1.0)
    four(run)
    await look(bench)
    assert revoked(run) is None


async def test_nobody_leaves_where_preemption_is_switched_off(run: Any) -> None:
    bench = SolverBench(run, preempts=False)
    limits(run, "team", runtime=2, over_since_s=1.0)
    four(run)
    await look(bench)
    assert revoked(run) is None


async def test_it_is_settled_once_all_its_victims_are_leaving(run: Any, bench: SolverBench) -> None:
    limits(run, "team", runtime=2, over_since_s=1.0)
    four(run)
    await look(bench)
    assert revoked(run) == ["p1", "p0"]
    for name in ("p0", "p1"):
        run.pod(held(name, "team", 1, priority=int(name[1])).set(deleting=True))
    await look(bench)
    assert revoked(run) is None
    await look(bench, DELAY_S + 1)
    assert revoked(run) is None, "who is leaving is not counted"


async def test_it_is_taken_back_when_the_group_is_within_its_runtime_again(run: Any, bench: SolverBench) -> None:
    """Nothing new begins while somebody carries a mark of the one before."""
    limits(run, "team", runtime=2, over_since_s=1.0)
    four(run)
    await look(bench)
    decision = revocation(run)
    limits(run, "team", runtime=4)
    await look(bench)
    assert revoked(run) is None
    mark = Mark(decision.plan, f"/{decision.name}", decision.uid, BY_QUOTA)
    run.pod(held("p0", "team", 1).annotation(*mark_note(mark).popitem()))
    limits(run, "team", runtime=2, over_since_s=1.0)
    await look(bench, DELAY_S + 1)
    assert revoked(run) is None
    run.pod(held("p0", "team", 1))
    await look(bench)
    assert revoked(run) == ["p1", "p0"]


async def test_victims_that_stay_end_it_and_it_begins_anew_after_the_delay(run: Any, bench: SolverBench) -> None:
    limits(run, "team", runtime=2, over_since_s=1.0)
    four(run)
    await look(bench)
    first = revocation(run).plan
    await look(bench, 100.0)
    assert revocation(run).plan == first
    await look(bench, 100.0)
    assert revoked(run) is None
    await look(bench)
    assert revocation(run).plan != first


async def test_who_is_protected_stays_and_a_gang_leaves_whole(run: Any, bench: SolverBench) -> None:
    limits(run, "team", runtime=3, over_since_s=1.0)
    selector = LabelSelector(match_labels={"app": "kept"})
    budget = PodDisruptionBudget(namespace="default", name="b", version=1, selector=selector)
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(held("kept", "team", 1, priority=0).label("app", "kept"))
    run.pod(held("labelled", "team", 1, priority=0).label(names.LABEL_QUOTA_PREEMPTIBLE, "false"))
    run.pod(held("m0", "team", 1, priority=1, node="n1").gang("g", 2))
    run.pod(held("m1", "team", 1, priority=2, node="n0").gang("g", 2))
    run.pod(held("high", "team", 1, priority=9))
    await look(bench)
    assert sorted(revoked(run) or ()) == ["m0", "m1"]
    assert subjects.gang_account("default/g") in revocation(run).accounts


async def test_a_child_that_gives_back_leaves_its_parent_alone(run: Any, bench: SolverBench) -> None:
    limits(run, "top", runtime=3, over_since_s=1.0, is_parent=True)
    limits(run, "team", runtime=3, over_since_s=1.0, parent="top", ancestors=["top"])
    four(run)
    run.pod(held("own", "top", 1))
    await look(bench)
    assert (revoked(run), revoked(run, "top")) == (["p0"], ["own"])


class Pod(NamedTuple):
    group: int
    cores: int
    priority: int
    gang: int
    protected: bool


there = st.lists(
    st.builds(
        Pod,
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from([0, 0, 1, 2]),
        st.sampled_from([False] * 4 + [True]),
    ),
    max_size=9,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(there, st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_the_verifier_agrees_with_every_revocation(solving: type[Any], pods: list[Pod], runtimes: list[int]) -> None:
    run = monitored(solving())
    bench = SolverBench(run, preempts=True)
    limits(run, "top", runtime=runtimes[2], over_since_s=1.0, is_parent=True)
    for at in range(2):
        limits(run, f"g{at}", runtime=runtimes[at], over_since_s=1.0, parent="top", ancestors=["top"])
    for at, each in enumerate(pods):
        made = held(f"p{at}", f"g{each.group}", each.cores, each.priority, f"n{at % 2}")
        if each.gang:
            made.gang(f"gang{each.gang}", 2)
        if each.protected:
            made.label(names.LABEL_QUOTA_PREEMPTIBLE, "false")
        run.pod(made)
    before = metrics.REJECTED_PLANS._value.get()
    asyncio.run(look(bench))
    assert metrics.REJECTED_PLANS._value.get() == before
    for at in range(2):
        victims = {int(name[1:]) for name in revoked(run, f"g{at}") or ()}
        assert not any(pods[each].protected for each in victims)
        used = sum(each.cores for each in pods if each.group == at)
        assert used > runtimes[at] or not victims
