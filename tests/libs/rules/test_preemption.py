"""Preemption: who has to leave, on which node it costs least, and when nobody may be made to leave."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import kube, names
from berth.contracts.kube import LabelSelector, Requirement, Taint
from berth.contracts.state import Node, Pod, PodDisruptionBudget, PodTemplate
from berth.resources.amounts import Amounts, add, parse_amounts
from berth.resources.pod_request import request_of
from berth.rules.inter_pod_affinity import AffinityCounts
from berth.rules.node_affinity import compile_node_rule
from berth.rules.node_fit import node_fit
from berth.rules.pod_terms import Peer, Placed, PodTerms, compile_pod_terms
from berth.rules.ports import UsedPorts, host_ports
from berth.rules.preemption import (
    NO_VICTIMS,
    NOT_HELPFUL,
    PATIENCE_S,
    Budgets,
    Candidate,
    best_candidate,
    candidates_wanted,
    compile_budget,
    explanation,
    importance,
    lower_than,
    never_leaves,
    victims_on,
    why_not_eligible,
    why_protected,
)
from berth.rules.taints import Tolerations
from berth.testing.vectors import cases


def pod_of(item: dict[str, Any]) -> Pod:
    """An excerpt of an API object as STATE carries it."""
    spec = msgspec.convert({"containers": [], **item.get("spec", {})}, kube.PodSpec)
    meta, status = item["metadata"], item.get("status", {})
    conditions = [each for each in status.get("conditions", ()) if each["type"] == "DisruptionTarget"]
    return Pod(
        namespace=meta.get("namespace", "default"),
        name=meta["name"],
        uid=meta["name"],
        version=1,
        template=PodTemplate(
            requests=request_of(spec)[0],
            priority=spec.priority or 0,
            preemption_policy=spec.preemption_policy,
            node_selector=spec.node_selector or {},
            affinity=spec.affinity,
            tolerations=spec.tolerations or [],
            host_ports=host_ports(spec.containers, spec.init_containers or ()),
            labels=meta.get("labels", {}),
        ),
        node=spec.node_name,
        deleting="deletionTimestamp" in meta,
        started=status.get("startTime", ""),
        disruption=next((each["reason"] for each in conditions if each["status"] == "True"), ""),
        nominated=status.get("nominatedNodeName", ""),
    )


def node_of(item: dict[str, Any]) -> Node:
    return Node(
        name=item["metadata"]["name"],
        uid="",
        version=1,
        labels=item["metadata"].get("labels", {}),
        allocatable=parse_amounts(item["status"]["allocatable"], "allocatable")[0],
        taints=[msgspec.convert(each, Taint) for each in item.get("spec", {}).get("taints", ())],
    )


def budget_of(item: dict[str, Any]) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        namespace=item["metadata"].get("namespace", "default"),
        name=item["metadata"]["name"],
        version=1,
        selector=msgspec.convert(item["spec"]["selector"], LabelSelector),
        disruptions_allowed=item["status"]["disruptionsAllowed"],
        disrupted=list(item["status"].get("disruptedPods", {})),
    )


class Filtered(NamedTuple):
    """What the filters say of a node."""

    reasons: tuple[str, ...] = ()
    unresolvable: bool = False

    @property
    def code(self) -> str:
        if not self.reasons:
            return "Success"
        return "UnschedulableAndUnresolvable" if self.unresolvable else "Unschedulable"


def compiled(budgets: Iterable[PodDisruptionBudget], leaving: Iterable[Pod] = ()) -> Budgets:
    return Budgets(filter(None, map(compile_budget, budgets)), leaving)


def filtered(pod: Pod, node: Node, there: Collection[Pod]) -> Filtered:
    """The filters that depend on the node and on what is on it, in the order of their plugins."""
    template = pod.template
    if not Tolerations(template.tolerations).admit(node.taints, unschedulable=node.unschedulable):
        return Filtered(("taint",), unresolvable=True)
    if not compile_node_rule(template.node_selector, template.affinity).matches(node.labels, node.name):
        return Filtered(("node affinity",), unresolvable=True)
    if UsedPorts(port for each in there for port in each.template.host_ports).conflict(template.host_ports):
        return Filtered(("ports",))
    requested: Amounts = {}
    for each in there:
        requested = add(requested, each.template.requests)
    fit = node_fit(template.requests, allocatable=node.allocatable, requested=requested, pod_count=len(there))
    if not fit.fits:
        return Filtered(fit.reasons, fit.unresolvable)
    counts = AffinityCounts(peer_of(pod), terms_of(pod), {})
    for each in there:
        counts.add(Placed(peer_of(each), node.name, terms_of(each)), node)
    unfit = counts.unfit(node)
    return Filtered((unfit.reason,), not unfit.resolvable) if unfit is not None else Filtered()


def peer_of(pod: Pod) -> Peer:
    return Peer(pod.namespace, pod.template.labels)


def terms_of(pod: Pod) -> PodTerms:
    return compile_pod_terms(pod.template.affinity, pod.namespace, pod.template.labels)


@pytest.mark.parametrize("case", cases("kube-scheduler/preemption_victims"))
def test_victims(case: dict[str, Any]) -> None:
    of = case["given"]
    pod, nodes, pods = pod_of(of["pod"]), map(node_of, of["nodes"]), [pod_of(each) for each in of["pods"]]
    budgets = [budget_of(each) for each in of.get("podDisruptionBudgets", ())]
    for node in nodes:
        expect = case["expect"]["nodes"][node.name]
        there = [each for each in pods if each.node == node.name]
        before = filtered(pod, node, there)
        assert (before.code == "Unschedulable") == expect["considered"]
        if not expect["considered"]:
            assert before.code == expect["filter"]["code"]
            continue
        lower = lower_than(pod.template.priority, there)
        if not lower:
            assert expect["code"] == "UnschedulableAndUnresolvable"
            assert expect["reasons"] == [NO_VICTIMS]
            continue

        def without(gone: Collection[Pod], node: Node = node, there: Sequence[Pod] = there) -> Filtered:
            return filtered(pod, node, [each for each in there if each not in gone])

        found = victims_on(node.name, lower, compiled(budgets), lambda gone: without(gone).code == "Success")
        assert (found is not None) == (expect["code"] == "Success")
        if found is None:
            assert list(without(lower).reasons) == expect["reasons"]
        else:
            assert [each.name for each in found.victims] == expect["victims"]
            assert found.violations == expect["pdbViolations"]


@pytest.mark.parametrize("case", cases("kube-scheduler/preemption_best_candidate"))
def test_best_candidate(case: dict[str, Any]) -> None:
    candidates = [
        Candidate(each["node"], tuple(map(pod_of, each["victims"])), each["pdbViolations"])
        for each in case["given"]["candidates"]
    ]
    best = best_candidate(candidates)
    assert best is not None
    assert best.node == case["expect"]["node"]


@pytest.mark.parametrize("case", cases("kube-scheduler/preemption_eligibility"))
def test_eligibility(case: dict[str, Any]) -> None:
    of = case["given"]
    pod = pod_of(of["pod"])
    nodes = {each["metadata"]["name"] for each in of["nodes"]}
    there = [each for each in map(pod_of, of["pods"]) if each.node == pod.nominated and pod.nominated in nodes]
    unresolvable = of.get("nominatedNodeStatus") == "UnschedulableAndUnresolvable"
    why_not = why_not_eligible(pod, there, is_nominated_unresolvable=unresolvable)
    assert (why_not == "") is case["expect"]["eligible"]
    assert why_not == case["expect"]["message"]


@pytest.mark.parametrize(("count", "tried"), [(0, 0), (7, 7), (100, 100), (999, 100), (1_009, 100), (5_000, 500)])
def test_a_tenth_of_the_nodes_is_tried_and_at_least_a_hundred(count: int, tried: int) -> None:
    assert candidates_wanted(count) == tried


def test_a_profile_says_how_many_are_enough() -> None:
    assert candidates_wanted(1_000, 50, 1) == 500
    assert candidates_wanted(1_000, 0, 3) == 3


def test_a_pod_that_its_budget_has_counted_already_is_not_counted_again() -> None:
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=1, selector=LabelSelector(match_labels={"app": "x"}), disrupted=["one"]
    )
    pods = [simple("one", 1, labels={"app": "x"}), simple("two", 1, labels={"app": "x"})]
    assert compiled([budget]).split(pods) == ([pods[1]], [pods[0]])


def test_a_budget_of_another_namespace_protects_nobody() -> None:
    budget = PodDisruptionBudget(
        namespace="other", name="b", version=1, selector=LabelSelector(match_labels={"app": "x"})
    )
    assert compiled([budget]).split([simple("one", 1, labels={"app": "x"})])[0] == []


@pytest.mark.parametrize("case", cases("quota/pdb_groups"))
def test_protected_and_others(case: dict[str, Any]) -> None:
    of = case["given"]
    pods = [
        Pod(
            namespace=each.get("namespace", "ns1"),
            name=each["name"],
            uid=each["name"],
            version=1,
            template=PodTemplate(labels=each["labels"]),
        )
        for each in of["pods"]
    ]
    broken = LabelSelector(match_expressions=[Requirement(key="app", operator="Nonsense", values=[])])
    budgets = [
        PodDisruptionBudget(
            namespace=each["namespace"],
            name=f"b{at}",
            version=1,
            selector=broken if each.get("invalidSelector") else LabelSelector(match_labels=each["matchLabels"]),
            disruptions_allowed=each["disruptionsAllowed"],
            disrupted=each.get("disruptedPods", []),
        )
        for at, each in enumerate(of["pdbs"])
    ]
    violating, others = compiled(budgets).split(pods)
    assert [each.name for each in violating] == case["expect"]["violating"]
    assert [each.name for each in others] == case["expect"]["nonViolating"]


def budget(name: str = "b", allowed: int = 1, version: int = 1, **fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        namespace="default",
        name=name,
        version=version,
        disruptions_allowed=allowed,
        **{"selector": LabelSelector(match_labels={"app": "x"}), **fields},
    )


def test_who_is_about_to_leave_has_spent_a_disruption() -> None:
    leaving, staying = (simple(name, 1, labels={"app": "x"}) for name in ("leaving", "staying"))
    left = compiled([budget(allowed=1)], [leaving])
    assert left.split([staying])[0] == [staying]
    assert left.split([leaving])[0] == [], "it is not counted twice"
    assert compiled([budget(allowed=2)], [leaving]).split([staying])[0] == []


def test_who_is_about_to_leave_spends_nothing_that_was_counted_already_and_nothing_of_others() -> None:
    leaving, staying = (simple(name, 1, labels={"app": "x"}) for name in ("leaving", "staying"))
    elsewhere = msgspec.structs.replace(leaving, namespace="other")
    assert compiled([budget(disrupted=["leaving"])], [leaving]).split([staying])[0] == []
    assert compiled([budget()], [elsewhere]).split([staying])[0] == []


def test_a_budget_that_is_newer_than_its_pods_deletion_has_counted_it() -> None:
    staying = simple("staying", 1, labels={"app": "x"})
    leaving = msgspec.structs.replace(simple("leaving", 1, labels={"app": "x"}), deleting=True, version=5)
    assert compiled([budget(version=6)], [leaving]).split([staying])[0] == []
    assert compiled([budget(version=4)], [leaving]).split([staying])[0] == [staying]


def test_which_budgets_select_a_pod() -> None:
    some = compiled([budget("b"), budget("a"), budget("none", selector=None), budget("all", selector=LabelSelector())])
    assert [each.name for each in some.of(simple("one", 1, labels={"app": "x"}))] == ["b", "a"]
    assert some.of(simple("two", 1, labels={"app": "y"})) == some.of(simple("three", 1)) == []


def test_who_has_not_started_counts_as_started_last() -> None:
    early, late, never = simple("c", 1, "2025-01-01T00:00:00Z"), simple("b", 1, "2025-01-01T00:00:01Z"), simple("a", 1)
    assert lower_than(2, [never, late, early]) == [early, late, never]
    assert best_candidate([Candidate("n1", (late,)), Candidate("n2", (never,))]) == Candidate("n2", (never,))


@pytest.mark.parametrize(
    ("disabled", "preemptible", "priority", "removable"),
    [
        (None, None, 1, True),
        ("true", None, 1, False),
        (None, "false", 1, False),
        (None, "true", 1, True),
        (None, None, 2, False),
        ("True", "False", 1, True),
        ("", "", 1, True),
    ],
)
def test_two_labels_protect_by_one_value_each(
    disabled: str | None, preemptible: str | None, priority: int, removable: bool
) -> None:
    """The first five are the reference's examples."""
    given_labels = {names.LABEL_DISABLE_PREEMPTIBLE: disabled, names.LABEL_QUOTA_PREEMPTIBLE: preemptible}
    labels = {name: value for name, value in given_labels.items() if value is not None}
    one = simple("one", priority, labels=labels)
    assert lower_than(2, [one]) == ([one] if removable else [])


def test_why_a_pod_is_protected_names_what_protects_it() -> None:
    assert why_protected(simple("one", 1)) == ""
    labelled = simple("one", 1, labels={names.LABEL_QUOTA_PREEMPTIBLE: "false"})
    assert why_protected(labelled) == "label quota.scheduling.koordinator.sh/preemptible=false"
    assert why_protected(msgspec.structs.replace(labelled, mirror=True)) == "mirror pod"


def test_a_mirror_pod_stays() -> None:
    assert lower_than(2, [msgspec.structs.replace(simple("one", 1), mirror=True)]) == []


def test_who_is_past_its_grace_period_by_more_than_patience_never_leaves() -> None:
    leaving = msgspec.structs.replace(simple("one", 1), deleting=True, deletes_at="1970-01-01T00:01:40Z")
    assert never_leaves(leaving, 100 + PATIENCE_S - 0.1) == ""
    assert never_leaves(leaving, 100 + PATIENCE_S) == "default/one does not end"
    assert never_leaves(msgspec.structs.replace(leaving, deleting=False), 1e9) == ""
    assert never_leaves(msgspec.structs.replace(leaving, deletes_at=""), 1e9) == ""


def test_nobody_to_choose_among() -> None:
    assert best_candidate([]) is None


def test_explanation_counts_reasons_as_a_refusal_does() -> None:
    assert explanation(5, {NOT_HELPFUL: 1, NO_VICTIMS: 4, "unused": 0}) == (
        "preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, "
        "4 No preemption victims found for incoming pod."
    )
    assert explanation(12, {NOT_HELPFUL: 2, "Insufficient cpu": 10}).endswith(
        "10 Insufficient cpu, 2 Preemption is not helpful for scheduling."
    )


def simple(name: str, priority: int, started: str = "", cpu: int = 0, labels: dict[str, str] | None = None) -> Pod:
    template = PodTemplate(requests={names.CPU: cpu}, priority=priority, labels=labels or {})
    return Pod(namespace="default", name=name, uid=name, version=1, template=template, started=started)


holders = st.lists(
    st.tuples(
        st.integers(-2, 3),
        st.sampled_from(["", "2025-01-01T00:00:00Z", "2025-01-01T00:00:01Z"]),
        st.integers(0, 4),
        st.sampled_from(["", "x", "y"]),
    ),
    max_size=7,
).map(
    lambda rows: [
        simple(f"p{at}", priority, started, cpu, {"app": app} if app else {})
        for at, (priority, started, cpu, app) in enumerate(rows)
    ]
)
budgets_of_apps = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(
    lambda allowed: [
        PodDisruptionBudget(
            namespace="default",
            name=app,
            version=1,
            selector=LabelSelector(match_labels={"app": app}),
            disruptions_allowed=count,
        )
        for app, count in zip("xy", allowed, strict=True)
    ]
)


@given(holders, budgets_of_apps, st.integers(0, 7))
def test_to_be_counted_beforehand_and_to_be_asked_first_comes_to_the_same(
    pods: list[Pod], budgets: list[PodDisruptionBudget], cut: int
) -> None:
    """A standing nomination is charged as if its victims had been asked about first, in one go."""
    first, then = pods[:cut], pods[cut:]
    protected, _ = compiled(budgets).split(pods)
    assert compiled(budgets, first).split(then)[0] == [pod for pod in protected if pod in then]


@given(holders, budgets_of_apps, st.integers(0, 12), st.integers(0, 3))
def test_no_victim_could_have_stayed(
    pods: list[Pod], budgets: list[PodDisruptionBudget], capacity: int, priority: int
) -> None:
    def fits(gone: Collection[Pod]) -> bool:
        return sum(each.template.requests[names.CPU] for each in pods if each not in gone) <= capacity

    lower = lower_than(priority, pods)
    found = victims_on("n", lower, compiled(budgets), fits)
    assert (found is None) == (not fits(lower))
    if found is None:
        return
    assert fits(found.victims)
    assert all(each.template.priority < priority for each in found.victims)
    assert list(found.victims) == sorted(found.victims, key=importance)
    protected, _ = compiled(budgets).split(lower)
    assert found.violations == sum(each in protected for each in found.victims)
    # One more that stays never fits: the filter here grows with who is there.
    for each in found.victims:
        assert not fits([other for other in found.victims if other != each])
