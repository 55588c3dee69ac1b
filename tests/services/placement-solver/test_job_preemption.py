"""Preemption for gangs in the rounds: all members are nominated, or none; who leaves, and what follows."""

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
from berth.contracts.question import WhyQuestion
from berth.contracts.state import PodDisruptionBudget
from berth.placement_solver import metrics
from berth.placement_solver.why import answer
from berth.rules.eviction_notes import Mark, Nominated, mark_note, nomination_note
from berth.rules.preemption import BY_SCHEDULER
from berth.testing.builders import PodBuilder, pod


def sized(name: str, cpu: int, priority: int, **fields: Any) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority).set(**fields)


def member(number: int, *, cpu: int = 4, minimum: int = 2, gang: str = "job", priority: int = 9) -> PodBuilder:
    return sized(f"{gang}-{number}", cpu, priority).gang(gang, minimum)


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    for at in range(3):
        made.node(f"n{at}", cpu=4000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def decisions(run: Any) -> dict[str, Decision]:
    return {name[1]: held.decision for name, held in run.cluster.book.ledger.decisions.items()}


def victims(run: Any, name: str) -> list[str]:
    return sorted(each.name for each in decisions(run)[name].victims)


async def test_all_members_are_nominated_by_one_plan_with_all_its_victims(run: Any, bench: SolverBench) -> None:
    for at in range(3):
        run.pod(sized(f"low-{at}", 4, at).on(f"n{at}"))
    run.pod(member(0))
    run.pod(member(1))
    await bench.until_idle()
    found = decisions(run)
    assert {name: each.node for name, each in found.items()} == {"job-0": "n0", "job-1": "n1"}
    assert all(each.nominates and each.gang is not None and each.gang.size == 2 for each in found.values())
    assert len({each.plan for each in found.values()}) == 1
    assert victims(run, "job-0") == victims(run, "job-1") == ["low-0", "low-1"]
    assert {each.node for each in found["job-0"].victims} == {"n0", "n1"}
    assert {each.eviction_reason for each in found.values()} == {BY_SCHEDULER}


async def test_nobody_leaves_for_a_part_of_a_gang(run: Any, bench: SolverBench) -> None:
    run.pod(sized("low", 4, 0).on("n0"))
    run.pod(sized("equal", 4, 9).on("n1"))
    run.pod(sized("high", 4, 10).on("n2"))
    run.pod(member(0))
    run.pod(member(1))
    await bench.until_idle()
    assert decisions(run) == {}
    assert "Preemption is not helpful" in bench.commands.refusals()["job-0"]


async def test_members_beyond_the_minimum_are_left_out_where_they_have_no_place(run: Any, bench: SolverBench) -> None:
    run.pod(sized("low-0", 4, 0).on("n0"))
    run.pod(sized("low-1", 4, 0).on("n1"))
    run.pod(sized("high", 4, 10).on("n2"))
    for at in range(3):
        run.pod(member(at))
    await bench.until_idle()
    assert sorted(decisions(run)) == ["job-0", "job-1"]
    run.pod(member(3, minimum=2))
    await bench.until_idle()
    assert sorted(decisions(run)) == ["job-0", "job-1"], "the others wait until it has begun"


async def test_free_capacity_is_used_beside_victims(run: Any, bench: SolverBench) -> None:
    run.pod(sized("low", 4, 0).on("n0"))
    run.pod(sized("high", 4, 10).on("n1"))
    run.pod(member(0))
    run.pod(member(1))
    await bench.until_idle()
    assert {name: each.node for name, each in decisions(run).items()} == {"job-0": "n0", "job-1": "n2"}
    assert victims(run, "job-0") == ["low"]


async def test_a_strict_gang_leaves_whole(run: Any, bench: SolverBench) -> None:
    for at in range(2):
        run.pod(sized(f"old-{at}", 4, 1).gang("old", 2).on(f"n{at}"))
    run.pod(sized("high", 4, 10).on("n2"))
    run.pod(sized("one", 4, 9))
    await bench.until_idle()
    assert victims(run, "one") == ["old-0", "old-1"]
    assert subjects.gang_account("default/old") in decisions(run)["one"].accounts


async def test_a_gang_spares_members_above_its_minimum(run: Any, bench: SolverBench) -> None:
    for at in range(3):
        run.pod(sized(f"old-{at}", 4, 1, started=f"2026-01-0{at + 1}T00:00:00Z").gang("old", 2).on(f"n{at}"))
    run.pod(sized("one", 4, 9))
    await bench.until_idle()
    assert victims(run, "one") == ["old-2"], "the one that runs for the shortest time"


async def test_a_gang_with_a_member_that_stays_stays(run: Any, bench: SolverBench) -> None:
    run.pod(sized("old-0", 4, 1).gang("old", 2).on("n0"))
    run.pod(sized("old-1", 4, 1).gang("old", 2).label(names.LABEL_DISABLE_PREEMPTIBLE, "true").on("n1"))
    run.pod(sized("high", 4, 10).on("n2"))
    run.pod(sized("one", 4, 9))
    await bench.until_idle()
    assert decisions(run) == {}


async def test_pods_that_a_budget_protects_leave_last(run: Any, bench: SolverBench) -> None:
    run.pod(sized("low-0", 4, 0).label("app", "x").on("n0"))
    run.pod(sized("low-1", 4, 5).on("n1"))
    run.pod(sized("low-2", 4, 5).on("n2"))
    run.version += 1
    selector = LabelSelector(match_labels={"app": "x"})
    budget = PodDisruptionBudget(namespace="default", name="b", version=run.version, selector=selector)
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(member(0))
    run.pod(member(1))
    await bench.until_idle()
    assert victims(run, "job-0") == ["low-1", "low-2"]


def noted(builder: PodBuilder, run: Any) -> PodBuilder:
    decision = decisions(run)[builder.build(0).name]
    for key, value in nomination_note(Nominated(decision.plan, decision.node)).items():
        builder.annotation(key, value)
    return builder.set(nominated=decision.node)


def marked(builder: PodBuilder, run: Any) -> PodBuilder:
    decision = decisions(run)["job-0"]
    for key, value in mark_note(Mark(decision.plan, "default/job-0", decision.uid, BY_SCHEDULER)).items():
        builder.annotation(key, value)
    return builder


async def test_the_gang_is_decided_together_once_all_have_left(run: Any, bench: SolverBench) -> None:
    for at in range(2):
        run.pod(sized(f"low-{at}", 4, 0).on(f"n{at}"))
    run.pod(sized("high", 4, 10).on("n2"))
    run.pod(member(0))
    run.pod(member(1))
    await bench.until_idle()
    for at in range(2):
        run.pod(noted(member(at), run))
        run.pod(marked(sized(f"low-{at}", 4, 0).on(f"n{at}"), run))
    run.delete_pod("low-0")
    bench.clock.time += 20
    await bench.until_idle()
    assert all(each.nominates for each in decisions(run).values())
    run.pod(marked(sized("low-1", 4, 0).on("n1"), run).set(deleting=True, disruption=BY_SCHEDULER))
    bench.clock.time += 20
    await bench.until_idle()
    assert all(each.nominates for each in decisions(run).values()), "nothing is free yet"
    run.delete_pod("low-1")
    bench.clock.time += 20
    await bench.until_idle()
    found = decisions(run)
    assert not any(each.nominates for each in found.values())
    assert {name: each.node for name, each in found.items()} == {"job-0": "n0", "job-1": "n1"}
    assert not run.cluster.capacity.nominated


async def test_people_are_told_who_leaves_for_whom(run: Any, bench: SolverBench) -> None:
    for at in range(2):
        run.pod(sized(f"old-{at}", 4, 1).gang("old", 2).on(f"n{at}"))
    run.pod(sized("high", 4, 10).on("n2"))
    run.pod(member(0))
    run.pod(member(1))
    await bench.until_idle()

    def why(kind: str, name: str) -> Any:
        return answer(run.cluster, WhyQuestion(kind=kind, namespace="default", name=name))

    assert why("pod", "job-0").message == "nominated to n0, waiting for default/old-0, default/old-1 to leave"
    assert why("pod", "old-1").message == "bound to n1, and is to leave for default/job-0, default/job-1"
    assert why("gang", "job").facts["waits for"] == "default/old-0, default/old-1"
    assert why("gang", "job").facts["nominated"] == "2"
    assert why("gang", "old").facts["displaced by"] == "default/job-0, default/job-1"


async def test_a_displaced_gang_has_to_begin_anew_as_a_gang(run: Any, bench: SolverBench) -> None:
    for at in range(2):
        run.pod(sized(f"old-{at}", 4, 1).gang("old", 2).on(f"n{at}"))
    run.pod(sized("high", 4, 10).on("n2"))
    gangs = run.cluster.gangs
    assert gangs.readiness("default/old").satisfied
    for at in range(2):
        run.pod(sized(f"old-{at}", 4, 1).gang("old", 2).on(f"n{at}").set(deleting=True, disruption=BY_SCHEDULER))
    run.pod(sized("new-0", 4, 1).gang("old", 2))
    assert not gangs.readiness("default/old").ready, "one of two, beside those that leave"
    for at in range(2):
        run.delete_pod(f"old-{at}")
    assert not gangs.readiness("default/old").ready, "one of two"
    run.pod(sized("new-1", 4, 1).gang("old", 2))
    assert gangs.readiness("default/old") == (True, False, None)


async def test_its_pod_group_says_that_a_gang_was_displaced(run: Any) -> None:
    run.pod_group("old", 2)
    for at in range(2):
        run.pod(sized(f"old-{at}", 4, 1).gang("old").on(f"n{at}"))
    gangs = run.cluster.gangs
    assert gangs.readiness("default/old").satisfied
    run.pod_group("old", 2, annotations={names.ANNOTATION_DISPLACED: "p"})
    for at in range(2):
        run.delete_pod(f"old-{at}")
    run.pod(sized("new-0", 4, 1).gang("old"))
    assert not gangs.readiness("default/old").ready
    run.pod(sized("new-1", 4, 1).gang("old").on("n0"))
    assert gangs.readiness("default/old").satisfied, "the note is of the former members"


class Held(NamedTuple):
    """A pod that is on a node already."""

    node: int
    cores: int
    priority: int
    gang: str


holders = st.lists(
    st.builds(Held, st.integers(0, 3), st.integers(1, 3), st.integers(0, 4), st.sampled_from(["", "", "a", "b", "c"])),
    max_size=12,
)
jobs = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 6), st.integers(0, 4))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(holders, st.lists(jobs, min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 2))
def test_the_verifier_agrees_and_gangs_leave_whole(
    solving: type[Any], there: list[Held], comes: list[tuple[int, int, int, int]], minimum: int, allowed: int
) -> None:
    run = solving()
    for at in range(4):
        run.node(f"n{at}", cpu=4000)
    used = [0] * 4
    for at, held in enumerate(there):
        if used[held.node] + held.cores <= 4:
            used[held.node] += held.cores
            made = sized(f"held-{at}", held.cores, held.priority).label("app", "x")
            run.pod((made.gang(held.gang, minimum) if held.gang else made).on(f"n{held.node}"))
    selector = LabelSelector(match_labels={"app": "x"})
    run.version += 1
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=run.version, selector=selector, disruptions_allowed=allowed
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    for at, (members, cores, priority, least) in enumerate(comes):
        for number in range(members):
            run.pod(member(number, cpu=cores, minimum=max(1, min(members, least)), gang=f"job{at}", priority=priority))
    before = metrics.REJECTED_PLANS._value.get()
    asyncio.run(SolverBench(run, preempts=True).until_idle())
    assert metrics.REJECTED_PLANS._value.get() == before
    by_plan: dict[str, list[Decision]] = {}
    for each in decisions(run).values():
        if each.nominates:
            by_plan.setdefault(each.plan, []).append(each)
    pods = run.cluster.book.pods
    for nominated in by_plan.values():
        size = nominated[0].gang.size if nominated[0].gang is not None else 1
        assert len(nominated) == size
        chosen = {each.uid for each in nominated[0].victims}
        assert all({each.uid for each in other.victims} == chosen for other in nominated)
        lowest = min(pods[each.namespace, each.name].template.priority for each in nominated)
        for victim in nominated[0].victims:
            assert pods[victim.namespace, victim.name].template.priority < lowest
        for gang in "abc":
            members_of = [
                each
                for each in pods.values()
                if each.node and each.template.annotations.get(names.ANNOTATION_GANG_NAME) == gang
            ]
            left = [each for each in members_of if each.uid not in chosen]
            assert len(left) in (0, len(members_of)) or len(left) >= minimum
