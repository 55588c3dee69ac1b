"""Solving on small clusters: where pods go, which of them are refused by name, and what decisions carry."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.base import Problem
from berth.contracts.kube import ReservationOwner, Taint
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.shards import foreign_nodes, owner
from berth.placement_solver.core.trial import Trial
from berth.testing.builders import GI, gpu_grant, gpu_slots, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return solving()


def told(solution: Any, name: str = "p") -> list[str]:
    (reasons,) = [refusal.reasons for refusal in solution.refusals if refusal.candidate.name[1] == name]
    return [reason.message for reason in reasons]


# --- what fits ----------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_nothing_is_given_out_beyond_what_there_is_and_nothing_fitting_is_refused(solving: Any, data: Any) -> None:
    run = solving()
    sizes = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    for index, size in enumerate(sizes):
        run.node(f"n{index}", cpu=size * 1000, pods=5)
    requests = data.draw(st.lists(st.integers(1, 5), max_size=12))
    run.pods(pod(f"p{index}").requests(cpu=request * 1000) for index, request in enumerate(requests))
    solution = run.round()
    used = [0] * len(sizes)
    count = [0] * len(sizes)
    for placement in solution.placements:
        row = int(placement.claim.node[1:])
        used[row] += placement.claim.amounts[names.CPU]
        count[row] += 1
    assert all(taken <= size * 1000 for taken, size in zip(used, sizes, strict=True))
    assert all(pods <= 5 for pods in count)
    assert len(solution.placements) + len(solution.refusals) == len(requests)
    for refusal in solution.refusals:
        asked = refusal.candidate.cls.requests[names.CPU]
        assert all(
            taken + asked > size * 1000 or pods == 5 for taken, size, pods in zip(used, sizes, count, strict=True)
        )


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_trial_taken_back_leaves_no_trace(solving: Any, data: Any) -> None:
    run = solving()
    run.node("n0", cpu=16_000)
    run.devices("n0", gpu_slots(2))
    shares = data.draw(st.lists(st.integers(1, 100), max_size=5))
    run.pods(pod(f"p{index}").share(share).requests(cpu=500) for index, share in enumerate(shares))
    nodes = run.cluster.nodes
    before = (nodes.free[:, :1].tolist(), nodes.devices.slots["gpu"][0])
    solution, trial = run.solve()
    assert len(trial.claims) == len(solution.placements)
    trial.undo()
    assert (nodes.free[:, :1].tolist(), nodes.devices.slots["gpu"][0]) == before


def test_the_same_input_gives_the_same_plan(solving: Any) -> None:
    plans = []
    for _ in range(2):
        run = solving()
        for index in range(5):
            run.node(f"n{index}", cpu=(index + 2) * 1000)
            run.devices(f"n{index}", gpu_slots(index))
        run.pods(pod(f"p{index}").requests(cpu=700).share(40) for index in range(9))
        plans.append([(each.claim.name, each.claim.node, each.claim.grants) for each in run.round().placements])
    assert plans[0] == plans[1]
    assert plans[0]


def test_devices_are_shared_up_to_a_whole(run: Any) -> None:
    run.node("n0")
    run.devices("n0", gpu_slots(1))
    run.pods(pod(f"p{index}").share(40) for index in range(3))
    solution = run.round()
    assert len(solution.placements) == 2
    assert told(solution, "p2") == ["Insufficient gpu devices"]


def test_nobody_takes_devices_where_minors_are_unknown(run: Any) -> None:
    run.node("n0")
    run.devices("n0", gpu_slots(4))
    run.pod(pod("other").gpus(1).on("n0").template(scheduler="default-scheduler"))
    run.pods([pod("p").gpus(1), pod("q").requests(cpu=1)])
    solution = run.round()
    assert run.nodes_of(solution) == {"q": "n0"}
    assert told(solution) == ["node(s) hold pods whose devices are unknown"]


def test_host_ports_are_taken_once_a_node(run: Any) -> None:
    run.node("n0")
    run.node("n1")
    run.pods(pod(name).port(80) for name in ("a", "b", "p"))
    solution = run.round()
    assert sorted(run.nodes_of(solution).values()) == ["n0", "n1"]
    assert told(solution) == ["node(s) didn't have free ports for the requested pod ports"]


def test_taints_marks_and_labels_keep_pods_off(run: Any) -> None:
    run.node("n0", taints=[Taint(key="own", effect="NoSchedule")])
    run.node("n1", unschedulable=True)
    run.node("n2", labels={"zone": "a"})
    run.pod(pod("p").only_on("zone", "b"))
    assert sorted(told(run.round())) == [
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) had untolerated taint(s)",
        "node(s) were unschedulable",
    ]
    run.pods([pod("q").tolerates("own").only_on("zone", "b"), pod("r").only_on("zone", "a"), pod("s").tolerates("own")])
    placed = run.nodes_of(run.round())
    assert placed["r"] == "n2"
    assert placed["s"] in ("n0", "n2")


# --- refusals by name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "path"),
    [
        (pod("p").template(constraints=["spec.affinity.podAntiAffinity"]), "spec.affinity.podAntiAffinity"),
        (
            pod("p").requests({"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb": 0}),
            "resources.requests[nvidia.com/mig-1g.5gb]",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(run: Any, builder: Any, path: str) -> None:
    run.node("n0")
    run.pod(builder)
    assert told(run.round()) == [f"unsupported: {path}"]


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ({names.GPU_CORE: 150, names.GPU_MEMORY_RATIO: 150}, names.GPU_CORE),
        ({names.KOORD_GPU: 101}, names.KOORD_GPU),
        ({names.GPU_CORE: 50}, "resources.requests:"),
        ({names.NVIDIA_GPU: 1, names.GPU_CORE: 1}, "resources.requests:"),
    ],
)
def test_invalid_device_requests_are_refused_by_field(run: Any, requests: dict[str, int], field: str) -> None:
    run.node("n0")
    run.devices("n0", gpu_slots(8))
    run.pod(pod("p").requests(requests))
    (message,) = told(run.round())
    assert field in message


def test_problems_found_at_the_door_are_told(run: Any) -> None:
    run.node("n0")
    problem = Problem(field="spec.containers[0].resources.requests[cpu]", message="is no quantity")
    run.pod(pod("p").set(problems=[problem]))
    assert told(run.round()) == ["spec.containers[0].resources.requests[cpu]: is no quantity"]


def test_equal_pods_are_one_class_and_bad_ones_another(run: Any) -> None:
    run.node("n0")
    run.pods(pod(f"p{index}").requests(cpu=100).label("app", str(index)) for index in range(5))
    run.pod(pod("q").requests(cpu=200))
    run.round()
    assert sum(1 for _ in run.cluster.classes) == 2


# --- reservations -------------------------------------------------------------------------------------------------


def reserve(run: Any, name: str = "r", cpu: int = 4000, **fields: Any) -> None:
    amounts = {names.CPU: cpu}
    available = Reservation(
        name=name,
        uid=f"uid-{name}",
        version=0,
        template=PodTemplate(requests=amounts),
        phase="Available",
        node="n0",
        allocatable=amounts,
    )
    fields = {"owners": [ReservationOwner()], "allocate_once": False, "usable": True, **fields}
    capacity = ReservedCapacity(
        name=name, uid=f"uid-{name}", revision=1, phase="Available", node="n0", amounts=amounts, **fields
    )
    run.reservation(available, capacity)


def test_owners_draw_on_their_reservation_and_others_keep_off(run: Any) -> None:
    run.node("n0", cpu=5000)
    reserve(run, owners=[ReservationOwner(controller=None, object=None, label_selector=None)])
    run.pod(pod("ignored").requests(cpu=2000).label(names.LABEL_RESERVATION_IGNORED, "true"))
    run.pod(pod("p").requests(cpu=3000))
    solution = run.round()
    assert run.nodes_of(solution) == {"p": "n0"}
    assert solution.placements[0].reservation == "r"
    assert run.cluster.nodes.free[0, 0] == 1000
    assert told(solution, "ignored") == ["Insufficient cpu"]


def test_a_reservation_for_one_pod_serves_one_pod(run: Any) -> None:
    run.node("n0", cpu=5000)
    reserve(run, allocate_once=True)
    run.pods(pod(name).requests(cpu=1000) for name in ("a", "b"))
    solution = run.round()
    assert [placement.reservation for placement in solution.placements] == ["r", ""]


def test_restricted_means_from_the_reservation_alone(run: Any) -> None:
    run.node("n0", cpu=9000)
    reserve(run, allocate_policy="Restricted")
    run.pod(pod("p").requests(cpu=5000).annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"name":"r"}'))
    assert told(run.round()) == ["reservation r: Insufficient cpu, requested: 5000, used: 0, capacity: 4000"]


def test_the_rest_comes_from_the_node(run: Any) -> None:
    run.node("n0", cpu=6000)
    reserve(run)
    run.pod(pod("p").requests(cpu=5000))
    assert run.round().placements[0].reservation == "r"
    assert run.cluster.nodes.free[0, 0] == 1000
    run.delete_pod("p")
    assert run.cluster.nodes.free[0, 0] == 2000


def test_an_affinity_that_nothing_matches_places_nowhere(run: Any) -> None:
    run.node("n0")
    run.pods([pod("p").annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"name":"r"}')])
    assert told(run.round()) == ["node(s) no reservations match reservation affinity"]


def test_the_checks_that_rule_out_reservations_are_counted(run: Any) -> None:
    run.node("n0")
    reserve(run, "others", owners=[])
    reserve(run, "shut", unschedulable=True)
    reserve(run, "tainted", taints=[Taint(key="k", effect="NoSchedule")])
    reserve(run, "plain-a")
    reserve(run, "plain-b")
    reserve(run, "away", usable=False)
    begin = "node(s) no reservations match reservation affinity, ruled out"
    run.pod(pod("p").annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"reservationSelector":{"a":"b"}}'))
    assert told(run.round()) == [f"{begin} 1 by owners, 1 by unschedulable, 1 by taint, 2 by affinity"]
    run.pod(pod("q").annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"name":"others"}'))
    assert told(run.round(), "q") == [f"{begin} 1 by owners, 4 by name"]


def test_an_unreadable_affinity_is_refused_by_its_field(run: Any) -> None:
    run.node("n0")
    reserve(run)
    run.pod(pod("p").annotation(names.ANNOTATION_RESERVATION_AFFINITY, "{"))
    (message,) = told(run.round())
    assert names.ANNOTATION_RESERVATION_AFFINITY in message


# --- decisions ----------------------------------------------------------------------------------------------------


def test_a_decision_carries_all_that_the_bind_needs(run: Any) -> None:
    run.node("n0", cpu=9000)
    run.devices("n0", gpu_slots(2))
    run.quota("top", is_parent=True, max={names.CPU: 9000})
    quota = run.quota("team", ancestors=["top"], max={names.CPU: 9000})
    reserve(run)
    run.pod(pod("p").requests(cpu=1000).share(50).quota("team", non_preemptible=False).port(80).gang("g", 1))
    solution, trial = run.solve()
    (decision,), revisions = run.decide(solution)
    trial.undo()
    assert decision.accounts == [
        subjects.node_account("n0"),
        subjects.quota_account("", "team"),
        subjects.quota_account("", "top"),
        subjects.reservation_account("r"),
    ]
    assert revisions[subjects.quota_account("", "team")] == quota.revision
    assert decision.allocation.grants == [gpu_grant(0, 50)]
    assert (decision.quota, decision.reservation, decision.host_ports) == ("/team", "r", ["0.0.0.0/TCP/80"])
    assert decision.pod_version == run.cluster.book.pods["default", "p"].version
    assert decision.gang is not None
    assert (decision.gang.name, decision.gang.size) == ("default/g", 1)
    notes = decision.annotations
    assert notes[names.ANNOTATION_PLAN] == decision.plan
    assert notes[names.ANNOTATION_QUOTA] == "/team"
    assert msgspec.json.decode(notes[names.ANNOTATION_RESERVATION_ALLOCATED]) == {"name": "r", "uid": "uid-r"}
    (device,) = msgspec.json.decode(notes[names.ANNOTATION_DEVICE_ALLOCATED])["gpu"]
    assert (device["minor"], device["id"]) == (0, "GPU-0")
    assert device["resources"][names.GPU_MEMORY] == "8Gi"
    assert notes[names.ANNOTATION_BIND_GANG_COUNT] == "1"


def test_a_decision_says_how_new_the_view_was_in_its_own_kind_and_in_the_other(run: Any) -> None:
    run.node("n0", cpu=9000)
    run.pod(pod("p").requests(cpu=1000))
    template = PodTemplate(requests={names.CPU: 1000}, scheduler=names.SCHEDULER_NAME)
    run.reservation(Reservation(name="r", uid="uid-r", version=0, template=template))
    solution, trial = run.solve()
    cluster = run.cluster
    decisions, _ = decisions_of(solution.placements, "plan", Basis(70, 50, 0), cluster.nodes, cluster.quotas, {})
    trial.undo()
    assert {each.kind: (each.basis, each.other_basis) for each in decisions} == {
        "pod": (70, 50),
        "reservation": (50, 70),
    }


def test_a_bound_pod_takes_what_its_decision_took(run: Any) -> None:
    run.node("n0")
    run.devices("n0", gpu_slots(2))
    builder = pod("p").requests(cpu=1000, memory=GI).share(30)
    run.pod(builder)
    run.round()
    nodes = run.cluster.nodes
    before = (nodes.free[:, 0].tolist(), nodes.devices.slots["gpu"][0])
    run.bind(builder)
    assert (nodes.free[:, 0].tolist(), nodes.devices.slots["gpu"][0]) == before
    run.delete_pod("p")
    assert [slot.free[0] for slot in nodes.devices.slots["gpu"][0]] == [100, 100]


def test_place_on_takes_the_given_node_or_none(run: Any) -> None:
    run.node("n0", cpu=500)
    run.node("n1")
    run.pod(pod("p").requests(cpu=1000))
    (unit,), _ = run.cluster.batch(1)
    trial = Trial(run.cluster.capacity)
    assert run.cluster.solver.place_on(unit.candidates[0], 0, trial, "plan") is None
    placement = run.cluster.solver.place_on(unit.candidates[0], 1, trial, "plan")
    assert placement is not None
    assert placement.claim.node == "n1"


# --- shares of the work -------------------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=5, unique=True), st.text(max_size=12))
def test_one_solver_owns_a_unit_and_keeps_it_when_another_leaves(solvers: list[str], unit: str) -> None:
    chosen = owner(unit, solvers)
    assert chosen in solvers
    assert owner(unit, sorted(solvers, reverse=True)) == chosen
    for leaving in solvers:
        if leaving != chosen:
            assert owner(unit, [each for each in solvers if each != leaving]) == chosen


def test_alone_no_node_is_foreign_and_together_every_node_has_one_owner() -> None:
    nodes = [f"n{index}" for index in range(50)]
    assert not foreign_nodes(nodes, "s1", ["s1"]).any()
    foreign = [foreign_nodes(nodes, solver, ["s1", "s2", "s3"]) for solver in ("s1", "s2", "s3")]
    assert (sum(mask.astype(int) for mask in foreign) == 2).all()
    assert owner("x", []) == ""
