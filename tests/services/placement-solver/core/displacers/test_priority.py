"""Priority preemption over the solver's own constraints: victims, the best node, who stays, which nominations yield."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.nominating import nominate

from berth.contracts import kube, names
from berth.contracts.kube import LabelSelector, ReservationOwner, Taint, TopologySpreadConstraint
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod, PodDisruptionBudget, Reservation
from berth.placement_solver.core.displacers.one_node import Displacement, helpful_rows
from berth.placement_solver.core.displacers.priority import PriorityPreemption
from berth.placement_solver.core.displacers.seam import Asking, Nobody, Refused
from berth.placement_solver.core.plan import Candidate, Refusal, Unit
from berth.resources.amounts import parse_amounts
from berth.resources.pod_request import request_of
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.ports import host_ports
from berth.rules.times import text_of
from berth.testing.builders import PodBuilder, gpu_grant, gpu_slots, pod
from berth.testing.vectors import cases

ENDS_AT_S = 1_700_000_000.0


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return solving()


def candidate_of(run: Any, name: str) -> Candidate:
    units, _ = run.cluster.batch(100)
    (found,) = [each for unit in units for each in unit.candidates if each.name[1] == name]
    return found


def waits(candidate: Candidate) -> Refused:
    return Refused(Unit(candidate.object.uid, (candidate,)), (Refusal(candidate, ()),))


def compiled(budgets: Iterable[PodDisruptionBudget]) -> list[preemption.Budget]:
    return [found for each in budgets if (found := preemption.compile_budget(each)) is not None]


def displacer(
    run: Any, budgets: Iterable[PodDisruptionBudget] = (), stays: Callable[[Pod], bool] = lambda pod: False
) -> PriorityPreemption:
    return PriorityPreemption(run.cluster.ground._replace(budgets=lambda: compiled(budgets)), stays)


def proposal(
    run: Any,
    waits: PodBuilder,
    *,
    offset: int = 0,
    refused: Collection[str] = (),
    now_s: float = 0.0,
    **given: Any,
) -> Displacement | Nobody:
    wanted = run.pod(waits)
    return displacer(run, **given).choose(candidate_of(run, wanted.name), offset, refused, now_s)


def victims(found: Displacement | Nobody) -> list[str]:
    assert isinstance(found, Displacement), found
    return [victim.name for victim in found.victims]


def sized(name: str, cpu: int, priority: int) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority)


# --- the reference cases ----------------------------------------------------------------------------------------------


def shown(item: dict[str, Any]) -> PodBuilder:
    spec = msgspec.convert({"containers": [], **item.get("spec", {})}, kube.PodSpec)
    made = pod(item["metadata"]["name"]).requests(request_of(spec)[0])
    for key, value in item["metadata"].get("labels", {}).items():
        made.label(key, value)
    made.template(
        priority=spec.priority or 0,
        node_selector=spec.node_selector or {},
        tolerations=spec.tolerations or [],
        host_ports=host_ports(spec.containers, spec.init_containers or ()),
        affinity=spec.affinity,
    )
    return made.set(started=item.get("status", {}).get("startTime", ""))


def budget_of(item: dict[str, Any]) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        namespace="default",
        name=item["metadata"]["name"],
        version=1,
        selector=msgspec.convert(item["spec"]["selector"], LabelSelector),
        disruptions_allowed=item["status"]["disruptionsAllowed"],
    )


@pytest.mark.parametrize("case", cases("kube-scheduler/preemption_victims"))
def test_victims_of_the_reference(case: dict[str, Any], solving: type[Any]) -> None:
    of = case["given"]
    budgets = [budget_of(each) for each in of.get("podDisruptionBudgets", ())]
    for node in of["nodes"]:
        name = node["metadata"]["name"]
        expect = case["expect"]["nodes"][name]
        run = solving()
        amounts = parse_amounts(node["status"]["allocatable"], "allocatable")[0]
        taints = [msgspec.convert(each, Taint) for each in node.get("spec", {}).get("taints", ())]
        run.node(
            name,
            cpu=amounts[names.CPU],
            memory=amounts[names.MEMORY],
            pods=amounts[names.PODS],
            taints=taints,
            labels=node["metadata"]["labels"],
        )
        run.pods(shown(each).on(name) for each in of["pods"] if each["spec"]["nodeName"] == name)
        run.pod(shown(of["pod"]))
        candidate = candidate_of(run, "incoming")
        asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))
        assert (helpful_rows(asked, run.cluster.nodes).size == 1) == expect["considered"]
        if not expect["considered"]:
            continue
        found = displacer(run, budgets).choose(candidate)
        if expect["code"] == "Success":
            assert victims(found) == expect["victims"]
            assert isinstance(found, Displacement)
            assert found.violations == expect["pdbViolations"]
        else:
            assert isinstance(found, Nobody)
            assert all(f"1 {reason}" in found.message for reason in expect["reasons"])


# --- against the rules alone ------------------------------------------------------------------------------------------

worlds = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from(["", "x"])), max_size=5),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(worlds, st.integers(1, 5), st.integers(0, 3), st.integers(0, 2), st.integers(0, 7))
def test_it_is_the_best_of_all_nodes_by_the_rules(
    solving: type[Any], nodes: list[Any], wanted: int, priority: int, allowed: int, offset: int
) -> None:
    run = solving()
    there: dict[str, list[Pod]] = {}
    for at, (cpu, holders) in enumerate(nodes):
        node = f"n{at}"
        run.node(node, cpu=cpu * 1000)
        there[node] = [
            run.pod((made.label("app", app) if app else made).on(node))
            for place, (size, of_priority, app) in enumerate(holders)
            for made in [sized(f"p{at}-{place}", size, of_priority)]
        ]
    budget = PodDisruptionBudget(
        namespace="default",
        name="b",
        version=1,
        selector=LabelSelector(match_labels={"app": "x"}),
        disruptions_allowed=allowed,
    )
    candidates = {}
    fits_somewhere = False
    for (cpu, _), (node, pods) in zip(nodes, there.items(), strict=True):

        def fits(gone: Collection[Pod], pods: list[Pod] = pods, cpu: int = cpu) -> bool:
            used = sum(each.template.requests[names.CPU] for each in pods if each not in gone)
            return used + wanted * 1000 <= cpu * 1000

        fits_somewhere = fits_somewhere or fits(())
        lower = preemption.lower_than(priority, pods)
        found = preemption.victims_on(node, lower, preemption.Budgets(compiled([budget])), fits) if lower else None
        if found is not None:
            candidates[node] = found
    if fits_somewhere:
        return
    answer = proposal(run, sized("waits", wanted, priority), budgets=[budget], offset=offset)
    if not candidates:
        assert isinstance(answer, Nobody)
        assert answer.message.startswith(f"preemption: 0/{len(nodes)} nodes are available: ")
        return
    assert isinstance(answer, Displacement)
    chosen = candidates[run.cluster.nodes.names[answer.target.row]]
    assert [each.uid for each in answer.victims] == [each.uid for each in chosen.victims]
    assert answer.violations == chosen.violations
    for each in candidates.values():
        better = preemption.best_candidate([chosen, each])
        assert better is chosen


# --- profiles ---------------------------------------------------------------------------------------------------------


def test_a_profile_without_the_plugin_makes_nobody_leave(run: Any) -> None:
    assert run.configure(plugins={"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}})
    run.node("n0", cpu=4000)
    run.pod(sized("low", 4, 0).on("n0"))
    assert proposal(run, sized("waits", 4, 9)) == Nobody("")


def test_a_profile_says_how_many_candidates_are_enough(run: Any) -> None:
    """Of so few the first is taken, although the other would cost less."""
    few = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "DefaultPreemptionArgs", **few}
    assert run.configure(pluginConfig=[{"name": "DefaultPreemption", "args": args}])
    for node, priority in (("n0", 5), ("n1", 0)):
        run.node(node, cpu=4000)
        run.pod(sized(f"on-{node}", 4, priority).on(node))
    assert victims(proposal(run, sized("waits", 4, 9))) == ["on-n0"]
    run.delete_pod("waits")
    assert victims(proposal(run, sized("waits", 4, 9), offset=1)) == ["on-n1"]


# --- who stays --------------------------------------------------------------------------------------------------------


def test_nobody_leaves_where_the_pod_can_never_go(run: Any) -> None:
    run.node("n0", cpu=4000, taints=[Taint(key="k", effect="NoSchedule")])
    run.node("n1", cpu=1000)
    run.pod(sized("low", 4, 0).on("n0"))
    found = proposal(run, sized("waits", 2, 9))
    assert found == Nobody("preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")


def test_a_pod_that_may_not_preempt_is_told_so(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(sized("low", 4, 0).on("n0"))
    found = proposal(run, sized("waits", 2, 9).template(preemption_policy="Never", priority=9))
    assert found == Nobody(f"preemption: {preemption.POLICY_FORBIDS}")


def test_it_waits_for_whom_its_node_is_being_left_by(run: Any) -> None:
    run.node("n0", cpu=4000)
    leaving = sized("low", 2, 0).on("n0").set(deleting=True, disruption=preemption.BY_SCHEDULER)
    run.pods([leaving, sized("other", 2, 0).on("n0")])
    found = proposal(run, sized("waits", 4, 9).set(nominated="n0"))
    assert found == Nobody(f"preemption: {preemption.STILL_LEAVING}")


def test_whom_the_caller_keeps_is_nobodys_victim(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pods([sized("member", 2, 0).on("n0"), sized("single", 2, 1).on("n0")])
    found = proposal(run, sized("waits", 2, 9), stays=lambda pod: pod.name == "member")
    assert victims(found) == ["single"]


@pytest.mark.parametrize(
    "protected",
    [
        lambda made: made.label(names.LABEL_QUOTA_PREEMPTIBLE, "false"),
        lambda made: made.label(names.LABEL_DISABLE_PREEMPTIBLE, "true"),
        lambda made: made.set(mirror=True),
    ],
    ids=["not preemptible", "preemption disabled", "mirror"],
)
def test_a_protected_pod_stays(run: Any, protected: Callable[[PodBuilder], PodBuilder]) -> None:
    run.node("n0", cpu=4000)
    run.pods([protected(sized("low", 2, 0)).on("n0"), sized("single", 2, 1).on("n0")])
    assert victims(proposal(run, sized("waits", 2, 9))) == ["single"]


def test_who_was_refused_of_late_stays(run: Any) -> None:
    run.node("n0", cpu=4000)
    low, _ = run.pods([sized("low", 2, 0).on("n0"), sized("single", 2, 1).on("n0")])
    assert victims(proposal(run, sized("waits", 2, 9), refused=[low.uid])) == ["single"]


def terminating(name: str, cpu: int, priority: int) -> PodBuilder:
    """Its grace period ends at ENDS_AT_S."""
    return sized(name, cpu, priority).set(deleting=True, deletes_at=text_of(ENDS_AT_S))


def test_who_never_leaves_is_no_victim_and_another_node_is_chosen(run: Any) -> None:
    """Before the limit it costs less than the other."""
    for node, made in (("n0", terminating("stuck", 4, 0)), ("n1", sized("other", 4, 1))):
        run.node(node, cpu=4000)
        run.pod(made.on(node))
    limit_s = ENDS_AT_S + preemption.PATIENCE_S
    assert victims(proposal(run, sized("waits", 4, 9), now_s=limit_s - 1)) == ["stuck"]
    run.delete_pod("waits")
    assert victims(proposal(run, sized("waits", 4, 9), now_s=limit_s)) == ["other"]


def test_who_never_leaves_goes_on_holding_its_capacity(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pods([terminating("stuck", 2, 0).on("n0"), sized("other", 2, 1).on("n0")])
    now_s = ENDS_AT_S + preemption.PATIENCE_S
    assert victims(proposal(run, sized("waits", 2, 9), now_s=now_s)) == ["other"]
    run.delete_pod("waits")
    found = proposal(run, sized("waits", 4, 9), now_s=now_s)
    assert isinstance(found, Nobody)
    assert "1 Insufficient cpu" in found.message


def test_where_all_lower_ones_never_leave_nobody_is_chosen(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(terminating("stuck", 4, 0).on("n0"))
    found = proposal(run, sized("waits", 4, 9), now_s=ENDS_AT_S + preemption.PATIENCE_S)
    assert isinstance(found, Nobody)
    assert preemption.NO_VICTIMS in found.message


def test_where_nobody_may_be_deleted_nobody_is_chosen(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(sized("low", 4, 0).on("n0"))
    found = proposal(run, sized("waits", 2, 9), refused=[ANYBODY])
    assert found == Nobody("preemption: the API server lets nobody be deleted for it.")


def test_where_all_lower_ones_are_protected_nobody_leaves(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(sized("low", 4, 0).label(names.LABEL_QUOTA_PREEMPTIBLE, "false").on("n0"))
    found = proposal(run, sized("waits", 2, 9))
    assert isinstance(found, Nobody)
    assert preemption.NO_VICTIMS in found.message


def test_users_of_a_reservation_stay(run: Any) -> None:
    run.node("n0", cpu=4000)
    hold = Reservation(
        name="hold",
        uid="hold-uid",
        version=1,
        node="n0",
        phase="Available",
        allocatable={names.CPU: 2000},
        owners=[ReservationOwner(label_selector=LabelSelector(match_labels={"app": "user"}))],
    )
    run.reservation(hold, ReservedCapacity(name="hold", uid="hold-uid", revision=1, phase="Available", node="n0"))
    reference = '{"name":"hold","uid":"hold-uid"}'
    user = sized("user", 2, 0).label("app", "user").annotation(names.ANNOTATION_RESERVATION_ALLOCATED, reference)
    run.pods([user.on("n0"), sized("plain", 2, 1).on("n0")])
    assert victims(proposal(run, sized("waits", 2, 9))) == ["plain"]


def test_whoever_holds_the_devices_leaves_and_others_stay(run: Any) -> None:
    run.node("n0")
    run.devices("n0", gpu_slots(2))
    run.pods(
        [
            pod("one").gpus(1).template(priority=3).on("n0", [gpu_grant(0)]),
            pod("two").gpus(1).template(priority=2).on("n0", [gpu_grant(1)]),
            pod("none").requests(cpu=1000).template(priority=0).on("n0"),
        ]
    )
    found = proposal(run, pod("waits").gpus(1).template(priority=9))
    assert victims(found) == ["two"]


# --- nominations ------------------------------------------------------------------------------------------------------


def test_what_an_equal_pod_is_nominated_to_is_not_taken(run: Any) -> None:
    run.node("n0", cpu=4000)
    low = run.pod(sized("low", 4, 0).on("n0"))
    run.pod(sized("first", 4, 9))
    nominate(run, "first", "n0", 4, [low])
    found = proposal(run, sized("waits", 4, 9))
    assert isinstance(found, Nobody)
    assert "1 Insufficient cpu" in found.message


def test_a_lower_nomination_gives_way_once_its_victims_leave(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(sized("low", 2, 0).on("n0").set(deleting=True))
    low = run.cluster.book.pods["default", "low"]
    run.pod(sized("top", 2, 20).on("n0"))
    run.pod(sized("first", 2, 5))
    nominate(run, "first", "n0", 2, [low])
    found = proposal(run, sized("waits", 2, 9))
    assert victims(found) == ["low"]
    assert isinstance(found, Displacement)
    assert [each.name[1] for each in found.displaced] == ["first"]


def test_a_lower_nomination_stays_while_victims_elsewhere_do(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.node("n1", cpu=1000)
    run.pod(sized("top", 2, 20).on("n0"))
    elsewhere = run.pod(sized("elsewhere", 1, 0).on("n1"))
    run.pod(sized("first", 2, 5))
    nominate(run, "first", "n0", 2, [elsewhere])
    found = proposal(run, sized("waits", 2, 9))
    assert isinstance(found, Nobody)


def test_a_lower_nomination_that_does_not_matter_is_left_alone(run: Any) -> None:
    run.node("n0", cpu=6000)
    run.pod(sized("top", 1, 20).on("n0"))
    run.pod(sized("low", 3, 0).on("n0"))
    run.pod(sized("first", 2, 5))
    nominate(run, "first", "n0", 2)
    found = proposal(run, sized("waits", 3, 9))
    assert victims(found) == ["low"]
    assert isinstance(found, Displacement)
    assert found.displaced == ()


def test_its_own_nomination_is_no_obstacle(run: Any) -> None:
    run.node("n0", cpu=4000)
    low = run.pod(sized("low", 4, 0).on("n0"))
    run.pod(sized("waits", 4, 9))
    candidate = candidate_of(run, "waits")
    nominate(run, "waits", "n0", 4, [low])
    found = displacer(run).choose(candidate)
    assert victims(found) == ["low"]


def test_what_it_is_nominated_to_hides_no_other_reason(run: Any) -> None:
    run.node("n0", cpu=4000)
    low = run.pod(sized("low", 0, 0).on("n0").set(deleting=True, disruption=preemption.BY_SCHEDULER))
    zoned = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=LabelSelector()
    )
    run.pod(sized("waits", 4, 9).template(topology_spread=[zoned], priority=9).set(nominated="n0"))
    candidate = candidate_of(run, "waits")
    nominate(run, "waits", "n0", 4, [low])
    found = displacer(run).choose(candidate)
    assert found == Nobody("preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")


def test_it_could_have_a_node_that_all_lower_ones_leave_and_no_other(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.node("n1", cpu=4000)
    run.pods([sized("low", 4, 0).on("n0"), sized("top", 1, 20).on("n1")])
    run.pod(sized("waits", 4, 9))
    candidate = candidate_of(run, "waits")
    found = displacer(run)
    assert found.could_have(waits(candidate), "n0", Asking("plan"))
    assert not found.could_have(waits(candidate), "n1", Asking("plan"))
    assert not found.could_have(waits(candidate), "nowhere", Asking("plan"))


def test_it_could_not_have_a_node_that_a_lower_one_never_leaves(run: Any) -> None:
    run.node("n0", cpu=4000)
    run.pod(terminating("stuck", 4, 0).on("n0"))
    run.pod(sized("waits", 4, 9))
    candidate = candidate_of(run, "waits")
    found = displacer(run)
    limit_s = ENDS_AT_S + preemption.PATIENCE_S
    assert found.could_have(waits(candidate), "n0", Asking("plan", now_s=limit_s - 1))
    assert not found.could_have(waits(candidate), "n0", Asking("plan", now_s=limit_s))
