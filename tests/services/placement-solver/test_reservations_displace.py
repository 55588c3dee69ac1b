"""Reservations that wait: whom they make leave, and when they get their place."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.command import PatchObject
from berth.contracts.ledger import Decision
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver import metrics
from berth.rules.eviction_notes import Nominated, nomination_note
from berth.rules.preemption import BY_SCHEDULER
from berth.rules.reservation_displaces import BORROWERS, LOWER_PRIORITY, NOBODY
from berth.rules.reservation_window import WindowNote
from berth.testing.builders import PodBuilder, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=8000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def waiting(
    name: str = "r", cores: int = 8, priority: int = 100, displaces: str | None = None, **fields: Any
) -> Reservation:
    window = {} if displaces is None else {names.ANNOTATION_WINDOW: _text(WindowNote(displaces=displaces))}
    given = {"template": PodTemplate(requests={names.CPU: cores * 1000}, priority=priority), "is_priority_set": True}
    return Reservation(**{"name": name, "uid": f"uid-{name}", "version": 1, "annotations": window, **given, **fields})


def _text(note: WindowNote) -> str:
    return msgspec.json.encode(note).decode()


def running(run: Any, name: str, cores: int, priority: int = 0, *, borrows: bool = False) -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).template(priority=priority).on("n0")
    if borrows:
        made.label(names.LABEL_RESERVATION_IGNORED, "true")
    run.pod(made)
    return made


def decision_of(run: Any, name: str = "r") -> Decision | None:
    entry = run.cluster.book.ledger.decisions.get(("", name))
    return entry.decision if entry is not None else None


async def test_with_a_priority_that_is_set_lower_pods_leave(run: Any, bench: SolverBench) -> None:
    running(run, "low", 5)
    running(run, "equal", 2, 100)
    run.reservation(waiting(cores=6))
    await bench.until_idle()
    decision = decision_of(run)
    assert decision is not None
    assert decision.nominates
    assert (decision.kind, decision.node, decision.eviction_reason) == ("reservation", "n0", BY_SCHEDULER)
    assert [victim.name for victim in decision.victims] == ["low"]
    run.delete_pod("low")
    bench.clock.time += 20
    await bench.until_idle()
    decision = decision_of(run)
    assert decision is not None
    assert not decision.nominates
    assert decision.node == "n0"


@pytest.mark.parametrize(
    ("reservation", "leave"),
    [
        (waiting(), {"low", "borrower"}),
        (waiting(is_priority_set=False), set()),
        (waiting(displaces=NOBODY), set()),
        (waiting(displaces=LOWER_PRIORITY), {"low", "borrower"}),
        (waiting(cores=3, displaces=BORROWERS), {"borrower"}),
        (waiting(cores=3, displaces=BORROWERS, is_priority_set=False), {"borrower"}),
        (waiting(displaces=BORROWERS), set()),
        (waiting(displaces=LOWER_PRIORITY, is_priority_set=False), set()),
        (waiting(displaces="Everybody"), set()),
        (waiting(priority=0), set()),
        (waiting(template=PodTemplate(requests={"cpu": 8000}, priority=9, preemption_policy="Never")), set()),
    ],
    ids=[
        "set",
        "not set",
        "nobody",
        "lower priority",
        "borrowers",
        "borrowers, not set",
        "borrowers, too few",
        "lower priority, not set",
        "another word",
        "not higher",
        "never",
    ],
)
async def test_who_leaves(run: Any, bench: SolverBench, reservation: Reservation, leave: set[str]) -> None:
    running(run, "low", 4)
    running(run, "borrower", 4, borrows=True)
    run.reservation(reservation)
    await bench.until_idle()
    decision = decision_of(run)
    assert {victim.name for victim in decision.victims} == leave if leave and decision else decision is None


async def test_it_is_switched_off_with_preemption(run: Any) -> None:
    bench = SolverBench(run, preempts=False)
    running(run, "low", 8)
    run.reservation(waiting())
    await bench.until_idle()
    assert decision_of(run) is None


async def test_a_profile_without_preemption_is_without_this(run: Any, bench: SolverBench) -> None:
    run.configure(plugins={"postFilter": {"disabled": [{"name": "*"}]}})
    running(run, "low", 8)
    template = PodTemplate(requests={names.CPU: 8000}, priority=9, scheduler="berth-scheduler")
    run.reservation(waiting(template=template))
    await bench.until_idle()
    assert decision_of(run) is None


async def test_what_is_held_by_others_of_its_kind_stays(run: Any, bench: SolverBench) -> None:
    amounts = {names.CPU: 5000}
    held = waiting("held", priority=1, template=PodTemplate(requests=amounts, priority=1))
    run.reservation(msgspec.structs.replace(held, phase="Available", node="n0", allocatable=amounts))
    running(run, "low", 3)
    run.reservation(waiting(cores=8))
    await bench.until_idle()
    assert decision_of(run) is None


async def test_a_nomination_that_it_could_not_have_is_taken_back_with_its_refusal(run: Any, bench: SolverBench) -> None:
    running(run, "top", 6, priority=200)
    run.reservation(waiting(annotations=nomination_note(Nominated("p", "n0"))))
    await bench.until_idle()
    (patch,) = [decode(payload, PatchObject) for _, payload in bench.commands.messages]
    assert patch.annotations == {names.ANNOTATION_NOMINATED: None}
    assert (patch.status or {})["phase"] == "Pending"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(0, 4),
    st.sampled_from((None, NOBODY, BORROWERS, LOWER_PRIORITY)),
    st.booleans(),
)
def test_the_verifier_agrees_and_nobody_leaves_who_need_not(
    solving: type[Any],
    pods: list[tuple[int, int, bool]],
    cores: int,
    priority: int,
    whom: str | None,
    is_set: bool,
) -> None:
    run = solving()
    run.node("n0", cpu=8000)
    run.node("n1", cpu=6000)
    bench = SolverBench(run, preempts=True)
    left = {"n0": 8, "n1": 6}
    of: dict[str, tuple[int, int, bool]] = {}
    for number, (size, theirs, borrows) in enumerate(pods):
        node = "n0" if left["n0"] >= size else "n1"
        if left[node] < size:
            continue
        left[node] -= size
        made = pod(f"p{number}").requests(cpu=size * 1000).template(priority=theirs).on(node)
        run.pod(made.label(names.LABEL_RESERVATION_IGNORED, "true") if borrows else made)
        of[f"p{number}"] = (size, theirs, borrows)
    rejected = metrics.REJECTED_PLANS._value.get()
    run.reservation(waiting(cores=cores, priority=priority, displaces=whom, is_priority_set=is_set))
    asyncio.run(bench.until_idle())
    assert metrics.REJECTED_PLANS._value.get() == rejected
    decision = decision_of(run)
    if max(left.values()) >= cores:
        assert decision is not None
        assert not decision.nominates
        return
    whom = whom or LOWER_PRIORITY
    may_leave = whom == BORROWERS or (whom == LOWER_PRIORITY and is_set)
    lower = {name for name, (_, theirs, borrows) in of.items() if theirs < priority and (borrows or whom != BORROWERS)}
    if decision is None:
        pods_there = run.cluster.book.pods.values()
        for node, whole in (("n0", 8), ("n1", 6)):
            staying = (each.name for each in pods_there if each.node == node and each.name not in lower)
            assert not may_leave or whole - sum(of[name][0] for name in staying) < cores
        return
    assert decision.nominates
    assert may_leave
    leaving = [victim.name for victim in decision.victims]
    assert set(leaving) <= lower
    freed = sum(of[name][0] for name in leaving)
    assert left[decision.node] + freed >= cores
    assert all(left[decision.node] + freed - of[name][0] < cores for name in leaving)
