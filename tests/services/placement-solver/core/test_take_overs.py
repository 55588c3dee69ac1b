"""Reservations that take over pods that run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.kube import LabelSelector, ReservationOwner, Taint
from berth.contracts.ledger import Step
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.take_overs import placing
from berth.testing.builders import PodBuilder, gpu_slots, pod

OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "own"}))]


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=8000)
    return made


def reserve(run: Any, cores: int, name: str = "r", **fields: Any) -> None:
    requests = {names.CPU: 1000 * cores} | fields.pop("more", {})
    given = {"owners": OWNERS, "allocate_once": False, "allocate_policy": "Restricted", "pre_allocation": True}
    run.reservation(
        Reservation(
            name=name,
            uid=f"uid-{name}",
            version=run.version + 1,
            template=PodTemplate(requests=requests, scheduler=names.SCHEDULER_NAME, priority=9),
            phase="Pending",
            **{**given, **fields},
        )
    )


def running(name: str, cores: int, node: str = "n0", **fields: Any) -> PodBuilder:
    made = pod(name).requests(cpu=1000 * cores).label("app", "own")
    return made.set(node=node, phase="Running", **fields)


def taken(solution: Any) -> list[tuple[str, str]]:
    (placement,) = solution.placements
    return [(step.action, step.pod) for step in placement.claim.before]


def free(run: Any, node: str = "n0") -> int:
    nodes = run.cluster.nodes
    return int(nodes.free[nodes.column(names.CPU), nodes.row(node)]) // 1000


def test_it_takes_over_what_runs_and_both_count_once(run: Any) -> None:
    run.pod(running("p", 6))
    reserve(run, 8)
    assert taken(run.round()) == [("take-over", "p")]
    assert free(run) == 0
    (claim,) = run.cluster.book.claims_of(("default", "p"))
    assert claim.reservation == "uid-r"
    assert run.cluster.capacity.reserved["uid-r"].amounts == {names.CPU: 2000}
    run.delete_pod("p")
    assert (free(run), run.cluster.capacity.reserved["uid-r"].amounts) == (0, {names.CPU: 8000})


def test_it_takes_over_a_pod_that_berth_has_placed(run: Any) -> None:
    placed = pod("p").requests(cpu=6000).label("app", "own")
    run.pod(placed)
    run.round()
    run.bind(placed)
    reserve(run, 8)
    assert taken(run.round()) == [("take-over", "p")]
    assert run.cluster.capacity.reserved["uid-r"].amounts == {names.CPU: 2000}


@pytest.mark.parametrize(
    "builder",
    [
        running("p", 6).label("app", "other"),
        running("p", 6, deleting=True),
        running("p", 9),
        running("p", 6).annotation(names.ANNOTATION_RESERVATION_AFFINITY, '{"name":"s"}'),
        running("p", 6).label(names.LABEL_RESERVATION_IGNORED, "true"),
        running("p", 6).annotation(names.ANNOTATION_RESERVATION_EXACT, '{"resourceNames":["cpu"]}'),
    ],
    ids=["no owner", "leaving", "too large", "of another", "borrower", "exact"],
)
def test_whom_it_does_not_take_over(run: Any, builder: PodBuilder) -> None:
    run.node("n0", cpu=9000)
    run.pod(builder)
    reserve(run, 8)
    solution = run.round()
    assert solution.placements == ()
    assert {reason.code for reason in solution.refusals[0].reasons} == {"NodeResourcesFit", "preallocation"}


def test_a_taint_of_it_keeps_pods_off(run: Any) -> None:
    run.pod(running("p", 6))
    reserve(run, 8, taints=[Taint(key="k", effect="NoSchedule")])
    assert run.round().placements == ()


def test_several_until_the_node_is_enough_fewest_first(run: Any) -> None:
    run.node("n1", cpu=8000)
    for node in ("n0", "n1"):
        run.pod(running(f"large-{node}", 3, node))
        run.pod(running(f"small-{node}", 1 if node == "n0" else 2, node))
        run.pod(pod(f"stranger-{node}").requests(cpu=2000 if node == "n0" else 1000).set(node=node, phase="Running"))
    reserve(run, 5, pre_allocation_multiple=True)
    assert taken(run.round()) == [("take-over", "large-n0")]  # with the two that are free
    reserve(run, 7, name="s", pre_allocation_multiple=True)
    assert taken(run.round()) == [("take-over", "large-n1"), ("take-over", "small-n1")]


@pytest.mark.parametrize("owners", [OWNERS, [ReservationOwner()]], ids=["by label", "anybody"])
def test_of_many_nodes_the_best_is_tried_first(
    run: Any, monkeypatch: pytest.MonkeyPatch, owners: list[ReservationOwner]
) -> None:
    for at in range(1, 40):
        run.node(f"n{at:02}", cpu=8000)
        run.pod(running(f"p{at:02}", 6 if at == 30 else 4, f"n{at:02}"))
    asked: list[str] = []
    real = placing.why_not_taken
    monkeypatch.setattr(placing, "why_not_taken", lambda *args: asked.append("") or real(*args))
    monkeypatch.setattr(placing, "ROWS_MAX", 35)
    tried: list[int] = []
    admits = run.cluster.solver.admits
    monkeypatch.setattr(run.cluster.solver, "admits", lambda *args: tried.append(0) or admits(*args))
    reserve(run, 8, owners=owners)
    assert taken(run.round()) == [("take-over", "p30")]
    assert len(tried) == 1
    assert len(asked) == (39 if owners is OWNERS else 35)


def test_one_that_is_used_once_takes_over_one(run: Any) -> None:
    run.pod(running("p", 3))
    run.pod(running("q", 3))
    reserve(run, 7, pre_allocation_multiple=True, allocate_once=True)
    assert run.round().placements == ()


def test_free_capacity_will_do_unless_it_has_to_take_over(run: Any) -> None:
    required = {names.LABEL_PRE_ALLOCATION_REQUIRED: "true"}
    reserve(run, 2, labels=required)
    (refusal,) = run.round().refusals
    assert [reason.message for reason in refusal.reasons] == [
        "node(s) no pod match reservation with pre allocation required"
    ]
    run.pod(running("p", 3))
    assert run.round().placements == ()
    assert run.cluster.queue.waiting["", "r"].reasons[0].code == "preallocation"
    reserve(run, 2, name="s")
    assert taken(run.round()) == []
    reserve(run, 4, labels=required)
    assert taken(run.round()) == [("take-over", "p")]


def test_a_profile_may_prefer_free_capacity_and_the_mode_cluster(run: Any) -> None:
    run.node("n0", cpu=16000)
    run.pod(running("a", 3).label(names.LABEL_PRE_ALLOCATABLE, "true"))
    first = running("b", 3).label(names.LABEL_PRE_ALLOCATABLE, "true").label("app", "other")
    run.pod(first.annotation(names.ANNOTATION_PRE_ALLOCATABLE_PRIORITY, "7"))
    reserve(run, 3, pre_allocation_mode="Cluster")
    (refusal,) = run.round().refusals
    assert refusal.reasons[0].field == "spec.preAllocationPolicy.mode"
    args = {"preAllocationConfig": {"enableClusterMode": True}}
    assert run.configure(pluginConfig=[{"name": "Reservation", "args": args}])
    reserve(run, 3, name="s", pre_allocation_mode="Cluster")
    steps = {step.pod for each in run.round().placements for step in each.claim.before}
    assert steps == {"b"}  # of the higher priority
    args["preAllocationConfig"]["preferNoPreAllocatedPods"] = True
    run.pod(running("c", 3))
    assert run.configure(pluginConfig=[{"name": "Reservation", "args": args}])
    reserve(run, 3, name="t")
    assert taken(run.round()) == []


def test_it_has_every_card_of_whom_it_takes_over(run: Any) -> None:
    placed = pod("p").requests({names.NVIDIA_GPU: 1}, cpu=1000).label("app", "own")
    placed.annotation(names.ANNOTATION_DEVICE_HINT, '{"gpu":{"selector":{"matchLabels":{"spot":"2"}}}}')
    run.devices("n0", [replace(each, labels={"spot": str(each.minor)}) for each in gpu_slots(4)])
    run.pod(placed)
    run.round()
    run.bind(placed)
    reserve(run, 2, more={names.NVIDIA_GPU: 2})
    solution = run.round()
    assert taken(solution) == [("take-over", "p")]
    minors = {grant.id for grant in solution.placements[0].claim.grants if grant.kind == "gpu"}
    assert "2" in minors
    assert len(minors) == 2
    left = run.cluster.capacity.reserved["uid-r"].grants
    assert {grant.id for grant in left} == minors - {"2"}


def test_a_note_that_is_left_over_is_taken_off_where_its_pod_is_not_taken(run: Any) -> None:
    noted = running("p", 6).annotation(names.ANNOTATION_RESERVATION_ALLOCATED, '{"name":"r","uid":"uid-r"}')
    run.pod(noted.label("app", "other"))
    reserve(run, 2)
    assert taken(run.round()) == [("let-go", "p")]
    (claim,) = run.cluster.book.claims_of(("default", "p"))
    assert claim.reservation == ""


def test_a_note_is_taken_off_as_well_where_it_takes_over_nobody_any_more(run: Any) -> None:
    run.pod(running("p", 6).annotation(names.ANNOTATION_RESERVATION_ALLOCATED, '{"name":"r","uid":"uid-r"}'))
    reserve(run, 2, pre_allocation=False)
    assert taken(run.round()) == [("let-go", "p")]
    (claim,) = run.cluster.book.claims_of(("default", "p"))
    assert claim.reservation == ""


@pytest.mark.parametrize("asks", [True, False])
def test_the_verifier_lets_a_reservation_take_off_its_own_note_alone(run: Any, asks: bool) -> None:
    run.pod(running("noted", 2).annotation(names.ANNOTATION_RESERVATION_ALLOCATED, '{"name":"r","uid":"uid-r"}'))
    run.pod(running("other", 2))
    run.pod(pod("p").requests(cpu=1000))
    reserve(run, 2, pre_allocation=asks, name="r")
    solution, trial = run.solve()
    trial.undo()
    of = {placement.claim.uid: placement.claim for placement in solution.placements}

    def problems(uid: str, name: str) -> str:
        step = Step(action="let-go", namespace="default", pod=name, pod_uid=run.cluster.book.pods["default", name].uid)
        claim = of[uid]
        return "; ".join(run.verifier.check([claim._replace(before=(*claim.before, step))]))

    stranger = "lets go of default/other, which does not note it"
    assert stranger in problems("uid-r", "other")
    assert "lets go" not in problems("uid-r", "noted")
    uid = run.cluster.book.pods["default", "p"].uid
    assert stranger in problems(uid, "other")
    assert "lets go of default/noted, which does not note it" in problems(uid, "noted")


def test_two_of_one_plan_do_not_take_the_same_pod(run: Any) -> None:
    run.pod(running("p", 6))
    for name in ("r", "s"):
        reserve(run, 8, name=name)
    solution = run.round()
    assert len(solution.placements) == len(solution.refusals) == 1


def test_the_verifier_wants_it_so(run: Any) -> None:
    run.pod(running("p", 6))
    run.pod(running("small", 1))
    reserve(run, 8)
    run.node("n0", cpu=9000)
    solution, trial = run.solve()
    trial.undo()
    (claim,) = [placement.claim for placement in solution.placements]
    assert run.verifier.check([claim]) == []
    (step,) = claim.before

    def problems(*steps: Step) -> str:
        return "; ".join(run.verifier.check([claim._replace(before=steps)]))

    assert "15000 claimed or reserved" in problems()
    assert "takes over a pod twice" in problems(step, step)
    assert "which is not on node n0" in problems(Step(action="take-over", namespace="default", pod="q", pod_uid="q"))
    small = Step(action="take-over", namespace="default", pod="small", pod_uid="small")
    assert problems(step, small)
    run.pod(running("small", 1).label("app", "x"))
    assert problems(step) == ""
