"""Reservations that are placed and ask for more get it where they are, once their node has it. Whatever grows in random
worlds, the verifier agrees; and to nothing more than that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.base import Reason
from berth.contracts.codec import decode
from berth.contracts.event import PlacementUnschedulable
from berth.contracts.kube import Taint
from berth.contracts.ledger import Decision
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.growths import Growths
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.growing import AT_ONCE
from berth.testing.builders import pod
from berth.transaction.claims import Claim, of_reservation

KEY = names.ANNOTATION_RESERVATION_RESIZE


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=8000, pods=2)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run)


def resized(**cores: str) -> dict[str, str]:
    return {KEY: json.dumps({"resources": cores})}


def reserved(run: Any, cpu: int = 2000, name: str = "r", **fields: Any) -> Reservation:
    """A Reservation that Berth has placed on n0."""
    run.version += 1
    known: dict[str, Any] = {
        "name": name, "uid": f"uid-{name}", "version": run.version, "phase": "Available", "node": "n0", "plan": "made",
        "template": PodTemplate(requests={names.CPU: cpu}, scheduler=names.SCHEDULER_NAME, priority=9),
        "allocatable": {names.CPU: cpu}, "annotations": resized(cpu="6"), "allocate_once": False,
    }  # fmt: skip
    seen = Reservation(**(known | fields))
    run.reservation(seen)
    return seen


async def look(bench: SolverBench, after_s: float = 1.0) -> None:
    bench.clock.time += after_s
    bench.rounds.tick()
    await bench.rounds.grow()


def decided(run: Any, name: str = "r") -> Decision | None:
    held = run.cluster.book.ledger.decisions.get(("", name))
    return held.decision if held is not None else None


def told(bench: SolverBench) -> list[str]:
    found = [
        decode(payload, PlacementUnschedulable) for subject, payload in bench.events.messages if "unsched" in subject
    ]
    return [each.message for each in found]


async def test_it_grows_in_place_and_holds_that_from_the_decision_on(run: Any, bench: SolverBench) -> None:
    seen = reserved(run)
    await look(bench)
    decision = decided(run)
    assert decision is not None
    assert (decision.kind, decision.grows, decision.node, decision.attempt) == ("reservation", "made", "n0", 0)
    assert (decision.allocation.amounts, decision.accounts) == ({names.CPU: 6000}, ["node.n0"])
    assert decision.annotations == {names.ANNOTATION_PLAN: decision.plan}
    run.pod(pod("p").requests(cpu=3000))
    assert not run.round().placements, "what it grows to is not given away"
    await look(bench)
    assert decided(run) == decision, "once"
    grown = replace(seen, version=seen.version + 1, plan=decision.plan, allocatable={names.CPU: 6000})
    run.reservation(grown)
    smaller = replace(grown, version=grown.version + 1, allocatable={names.CPU: 1000}, annotations=resized(cpu="1"))
    run.reservation(smaller)
    bench.clock.time += 60
    await bench.until_idle()
    assert bench.placed()["p"] == "n0", "carried out, it stands for nothing more than the object shows"
    run.reservation(replace(smaller, version=smaller.version + 1, annotations=resized(cpu="5")))
    await look(bench)
    again = decided(run)
    assert again is not None
    assert (again.grows, again.allocation.amounts) == (decision.plan, {names.CPU: 5000})


async def test_it_waits_for_room_and_says_so_once(run: Any, bench: SolverBench) -> None:
    reserved(run)
    run.pod(pod("p").requests(cpu=4000).on("n0"))
    for _ in range(3):
        await look(bench)
    assert decided(run) is None
    assert told(bench) == ["cannot grow in cpu on node n0: Insufficient cpu"]
    run.delete_pod("p")
    await look(bench, 60)
    assert decided(run) is not None


async def test_full_slots_are_no_reason_for_it_has_its_place(run: Any, bench: SolverBench) -> None:
    reserved(run)
    for name in ("p", "q"):
        run.pod(pod(name).on("n0"))
    await look(bench)
    assert decided(run) is not None


def unready(run: Any) -> None:
    run.node("n0", cpu=8000, taints=[Taint(key="k", effect="NoSchedule")])
    reserved(run)


def with_cores(run: Any) -> None:
    reserved(run, annotations={**resized(cpu="6"), names.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-1"}'})


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (unready, "taint"),
        (lambda run: reserved(run, pre_allocation=True), "takes over pods"),
        (with_cores, "CPUs or shares"),
        (lambda run: reserved(run, phase="Succeeded"), None),
        (lambda run: reserved(run, deleting=True), None),
        (lambda run: reserved(run, annotations=resized(cpu="2")), None),
        (lambda run: reserved(run, annotations={KEY: "no"}), None),
        (lambda run: reserved(run, template=PodTemplate(scheduler="other")), None),
        (lambda run: reserved(run, plan=""), None),
    ],
    ids=range(9),
)
async def test_what_does_not_grow(run: Any, bench: SolverBench, place: Any, why: str | None) -> None:
    place(run)
    await look(bench)
    assert decided(run) is None
    assert [why in text for text in told(bench)] == ([] if why is None else [True])


async def test_two_solvers_meet_at_the_account_of_the_node(run: Any, bench: SolverBench) -> None:
    reserved(run)
    run.pod(pod("p").requests(cpu=4000))
    bench.ledger.before_commit.append(lambda: run.round())
    await look(bench)
    assert decided(run) is None, "a pod came first"
    await look(bench, 60)
    assert decided(run) is None
    assert told(bench) == ["cannot grow in cpu on node n0: Insufficient cpu"]


async def test_those_of_others_take_nobodys_turn(run: Any, bench: SolverBench) -> None:
    for number in range(AT_ONCE):
        reserved(run, 0, name=f"a{number}", template=PodTemplate(scheduler="other"))
    reserved(run, 2000, name="z")
    await look(bench)
    assert decided(run, "z") is not None


@pytest.mark.parametrize("where", [Growths, Verifier], ids=["plugin", "verifier"])
async def test_a_plugin_that_raises_at_one_keeps_no_other_from_growing(
    run: Any, bench: SolverBench, monkeypatch: pytest.MonkeyPatch, where: type[Any]
) -> None:
    what = "place" if where is Growths else "check_growth"
    real = getattr(where, what)

    def raises(self: Any, asked: Any, *others: Any) -> Any:
        if asked.uid == "uid-bad":
            raise KeyError("planted")
        return real(self, asked, *others)

    monkeypatch.setattr(where, what, raises)
    reserved(run, 1000, name="bad", annotations=resized(cpu="2"))
    reserved(run, 1000, name="good", annotations=resized(cpu="2"))
    await look(bench)
    assert decided(run, "good") is not None
    assert decided(run, "bad") is None
    assert [text.startswith("internal error in") for text in told(bench)] == [True]
    monkeypatch.undo()
    await look(bench, 60)
    assert decided(run, "bad") is not None


amounts = st.integers(0, 4).map(lambda cores: 1000 * cores)


@settings(max_examples=40, deadline=None)
@given(
    held=st.tuples(amounts, amounts),
    wanted=st.tuples(amounts, amounts),
    users=st.lists(st.tuples(amounts, st.sampled_from(["uid-r", "uid-s", ""])), max_size=4),
    inner=st.sampled_from(["0", "1"]),
)
def test_the_verifier_agrees_with_what_grows_and_what_does_not(
    solving: Any, held: tuple[int, int], wanted: tuple[int, int], users: list[tuple[int, str]], inner: str
) -> None:
    run = solving()
    run.node("n0", cpu=8000)
    for at, (name, cpu, more) in enumerate(zip("rs", held, wanted, strict=True)):
        note = {names.ANNOTATION_NODE_RESERVATION: f'{{"resources":{{"cpu":"{inner}"}}}}'} if at else {}
        reserved(run, cpu, name, annotations={**resized(cpu=f"{more}m"), **note})
    for number, (cpu, uid) in enumerate(users):
        builder = pod(f"p{number}").requests(cpu=cpu).label("own", "r").on("n0")
        if uid:
            note = json.dumps({"name": uid[-1], "uid": uid})
            builder.annotation(names.ANNOTATION_RESERVATION_ALLOCATED, note)
        run.pod(builder)
    for name, reservation in sorted(run.cluster.growths.asking.items()):
        found = run.cluster.growths.place(reservation, "plan")
        more = json.loads(reservation.annotations[KEY])["resources"]["cpu"]
        mine = of_reservation(reservation)
        blind = mine._replace(amounts={names.CPU: int(more[:-1])}, plan="plan", is_bound=False)
        problems = run.verifier.check_growth(blind)
        if isinstance(found, Claim):
            assert (found, problems) == (blind, []), name
            assert run.verifier.check_growth(blind._replace(amounts={names.CPU: 9000}))
        else:
            assert isinstance(found, Reason)
            assert problems, found
