"""Reservations as members of gangs: they are counted, placed with the others or not at all, and refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.gang_question import GangQuestion
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.gang_status import next_status
from berth.placement_solver.gang_picture import gangs_seen
from berth.testing.builders import pod
from berth.transaction.claims import Claim

LAWS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def member(
    name: str, minimum: int = 2, *, cpu: int = 1000, gang: str = "g", priority: int = 0, **fields: Any
) -> Reservation:
    notes = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN: str(minimum)}
    template = PodTemplate(requests={names.CPU: cpu}, annotations=notes, priority=priority)
    return Reservation(**{"name": name, "uid": f"uid-{name}", "version": 1, "template": template, **fields})


def placed(run: Any) -> set[tuple[str, str]]:
    return {placement.candidate.name for placement in run.round().placements}


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=4000)
    return made


def test_a_gang_waits_for_its_reservation_and_begins_with_it(run: Any) -> None:
    run.pod(pod("p").requests(cpu=1000).gang("g", 2))
    assert placed(run) == set()
    run.reservation(member("r"))
    assert placed(run) == {("default", "p"), ("", "r")}
    decisions = [held.decision for held in run.cluster.book.ledger.decisions.values()]
    assert {(each.kind, each.gang and (each.gang.name, each.gang.size, each.gang.strict)) for each in decisions} == {
        ("pod", ("default/g", 2, True)),
        ("reservation", ("default/g", 2, True)),
    }
    assert all(each.annotations[names.ANNOTATION_BIND_GANG_COUNT] == "2" for each in decisions)


def test_none_of_them_is_placed_where_one_has_no_room(run: Any) -> None:
    run.reservation(member("r", cpu=8000))
    run.pod(pod("p").requests(cpu=1000).gang("g", 2))
    solution = run.round()
    assert not solution.placements
    assert all("gang default/g: capacity for" in each.reasons[0].message for each in solution.refusals)
    assert {each.candidate.name for each in solution.refusals} == {("default", "p"), ("", "r")}


async def test_one_that_waits_for_others_is_told_so_by_name(run: Any) -> None:
    bench = SolverBench(run)
    run.reservation(member("r", 3))
    run.pod(pod("p").requests(cpu=1000).gang("g", 3))
    await bench.until_idle()
    waiting = run.cluster.queue.waiting
    for name in (("", "r"), ("default", "p")):
        assert [each.message for each in waiting[name].reasons] == ["gang default/g has 2 of 3 members"]
    (view,) = gangs_seen(run.cluster, GangQuestion(namespace="default", name="g")).gangs
    assert (view.children, sorted(view.waiting)) == (2, ["default/p", "reservation/r"])


async def test_nobody_leaves_for_a_gang_of_which_a_reservation_waits(run: Any) -> None:
    bench = SolverBench(run, preempts=True)
    run.complete()
    run.pod(pod("low").requests(cpu=4000).on("n0"))
    run.reservation(member("r", priority=9))
    run.pod(pod("p").requests(cpu=1000).template(priority=9).gang("g", 2))
    await bench.until_idle()
    assert bench.placed() == {}
    assert "nobody leaves for gangs of which a Reservation waits" in bench.commands.refusals()["p"]


def test_a_reservation_by_itself_may_be_a_gang_and_lives_where_its_template_says(run: Any) -> None:
    run.reservation(member("r", 1, namespace="team"))
    assert placed(run) == {("", "r")}
    assert run.cluster.gangs.gangs.keys() == {"team/g"}


def test_one_that_is_placed_counts_as_bound_and_one_that_has_ended_no_more(run: Any) -> None:
    run.reservation(member("r", phase="Available", node="n0", plan="x", allocatable={names.CPU: 1000}))
    gang = run.cluster.gangs.gangs["default/g"]
    assert (gang.children, gang.bound) == ({("", "r")}, {("", "r")})
    run.pod(pod("p").requests(cpu=1000).gang("g", 2))
    assert placed(run) == {("default", "p")}, "the gang has begun: each goes by itself"
    run.reservation(member("r", phase="Succeeded", node="n0", version=2))
    assert (gang.children, gang.bound) == ({("default", "p")}, set())
    assert gang.has_begun


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_who_counts_on_one_that_has_ended_waits(run: Any, phase: str) -> None:
    run.pod(pod("p").requests(cpu=1000).gang("g", 2))
    run.reservation(member("r", phase=phase))
    assert placed(run) == set()


def test_an_owner_that_is_a_member_as_well_counts_for_itself_alone(run: Any) -> None:
    held = member("r", 2, phase="Available", node="n0", plan="x", allocatable={names.CPU: 1000}, allocate_once=False)
    run.reservation(held)
    run.pod(pod("p").requests(cpu=1000).gang("g", 2).on("n0"))
    gang = run.cluster.gangs.gangs["default/g"]
    assert gang.bound == {("", "r"), ("default", "p")}
    run.reservation(msgspec.structs.replace(held, phase="Succeeded", version=3))
    assert gang.bound == {("default", "p")}


def test_one_of_another_scheduler_is_no_member_here(run: Any) -> None:
    run.pod(pod("p").requests(cpu=1000).gang("g", 2))
    foreign = member("r")
    run.reservation(
        msgspec.structs.replace(foreign, template=msgspec.structs.replace(foreign.template, scheduler="another"))
    )
    assert placed(run) == set()


def test_the_pod_group_counts_it_as_scheduled(run: Any) -> None:
    run.pod_group("g", 2, phase="Scheduling")
    run.reservation(member("r", phase="Available", node="n0", allocatable={names.CPU: 1000}))
    run.pod(pod("p").gang("g").on("n0").set(phase="Running"))
    cluster = run.cluster
    seen = [cluster.book.seen(name) for name in cluster.gangs.gangs["default/g"].children]
    status = next_status(cluster.pod_groups["default/g"], [each for each in seen if each is not None], "now")
    assert (status["phase"], status["scheduled"], status["running"]) == ("Scheduled", 2, 1)


def test_it_lies_where_the_others_of_its_gang_have_to(run: Any) -> None:
    run.network("Spine")
    for name, spine in (("n0", "s0"), ("n1", "s1"), ("n2", "s1")):
        run.lies(name, spine)
    run.node("n1", cpu=1000)
    run.node("n2", cpu=1000)
    notes = {names.ANNOTATION_GANG_TOPOLOGY: '{"gatherStrategy":[{"layer":"Spine","strategy":"MustGather"}]}'}
    run.pod_group("g", 2, annotations=notes)
    run.pod(pod("p").requests(cpu=1000).gang("g").on("n1"))
    run.reservation(member("r", 2, cpu=1000))
    run.round()
    assert run.cluster.book.ledger.decisions[("", "r")].decision.node == "n2"


@LAWS
@given(st.data())
def test_the_verifier_takes_what_the_solver_plans_and_no_part_of_it(solving: type[Any], data: st.DataObject) -> None:
    """Gangs of pods and Reservations in any order, on nodes that take some of them."""
    run = solving()
    for index in range(data.draw(st.integers(1, 3))):
        run.node(f"n{index}", cpu=1000 * data.draw(st.integers(1, 4)))
    wanted: dict[str, tuple[int, int]] = {}
    for gang in ("g", "h"):
        pods, reserved = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
        minimum = data.draw(st.integers(1, max(1, pods + reserved)))
        wanted[f"default/{gang}"] = minimum, pods + reserved
        for index in range(pods):
            run.pod(pod(f"{gang}-{index}").requests(cpu=1000).gang(gang, minimum))
        for index in range(reserved):
            phase = data.draw(st.sampled_from(["", "", "", "Failed"]))
            run.reservation(member(f"{gang}-{index}", minimum, gang=gang, phase=phase))
            wanted[f"default/{gang}"] = minimum, wanted[f"default/{gang}"][1] - (phase == "Failed")
    solution, trial = run.solve()
    trial.undo()
    claims = [placement.claim for placement in solution.placements]
    assert run.verifier.check(claims) == []
    there: dict[str, list[Claim]] = {}
    for claim in claims:
        there.setdefault(claim.name[1][0], []).append(claim)
    for gang, (minimum, members) in wanted.items():
        placed = there.get(gang[-1], [])
        assert not placed or minimum <= len(placed) <= members
        if len(placed) == minimum > 1:
            left_out = data.draw(st.sampled_from(placed))
            assert run.verifier.check([claim for claim in claims if claim is not left_out])
