"""What pods are told when they go nowhere, and that what is kept of it follows every change of the nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Reason
from berth.contracts.kube import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Requirement, Taint
from berth.placement_solver.core import explain
from berth.placement_solver.core.classes import ClassTable
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.reasons import refusals_of
from berth.placement_solver.core.registry import Compiled
from berth.placement_solver.core.seams import Rejection
from berth.rules.unschedulable_message import NOTE_BYTES_MAX
from berth.testing.builders import gpu_grant, gpu_slots, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return solving()


def told(solution: Any) -> list[str]:
    (refusal,) = solution.refusals
    return [reason.message for reason in refusal.reasons]


def test_every_constraint_is_counted_and_the_nearest_miss_is_named(run: Any) -> None:
    run.node("n0", cpu=1000)
    run.node("n1", cpu=3000)
    run.node("n2", cpu=9000, taints=[Taint(key="own", effect="NoSchedule")])
    run.pod(pod("p").requests(cpu=4000))
    (refusal,) = run.round().refusals
    text = explain.message(refusal.reasons, 3)
    assert "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu." in text
    assert "To repair: ask for at most 3 cpu, which node n1 has free." in text


def test_without_nodes_that_is_what_is_said(run: Any) -> None:
    run.pod(pod("p"))
    (refusal,) = run.round().refusals
    assert explain.message(refusal.reasons, 0) == "no nodes available to schedule pods. To repair: add a node."


def test_a_full_node_and_an_empty_one_without_devices(run: Any) -> None:
    run.node("n0", pods=0)
    run.node("n1")
    run.pod(pod("p").gpus(2))
    assert sorted(told(run.round())) == ["Insufficient gpu devices", "Too many pods"]


CHANGES = {
    "taken": lambda run: run.pod(pod("other").requests(cpu=1000).share(30).on("n0", [gpu_grant(0, 30)])),
    "a port": lambda run: run.pod(pod("other").port(80).on("n1")),
    "given back": lambda run: run.delete_pod("other"),
    "smaller": lambda run: run.node("n1", cpu=1000),
    "larger": lambda run: run.node("n1", cpu=3000),
    "tainted": lambda run: run.node("n0", cpu=4000, taints=[Taint(key="k", effect="NoSchedule")]),
    "cordoned": lambda run: run.node("n1", cpu=2000, unschedulable=True),
    "one more": lambda run: run.node("n2", cpu=500),
    "devices": lambda run: run.devices("n1", gpu_slots(1)),
    "minors unknown": lambda run: run.pod(pod("unread").share(50).on("n0")),
}


@settings(max_examples=100, deadline=None)
@given(changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=6))
def test_a_class_is_told_of_every_change_of_the_nodes(solving: Any, changes: list[str]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(1))
    run.node("n1", cpu=2000)
    nodes, costs = run.cluster.nodes, run.cluster.solver.costs
    profiles, wanted = run.cluster.profiles, pod("p").requests(cpu=9000).share(80).port(80).build(0)

    def candidate() -> Candidate:
        return Candidate(("default", "p"), wanted, ClassTable(profiles).of(wanted.template, []))

    known = candidate()
    for change in changes:
        explain.nowhere(known, nodes, costs)
        CHANGES[change](run)
        assert explain.nowhere(known, nodes, costs) == explain.nowhere(candidate(), nodes, costs)


def test_messages_are_bounded(run: Any) -> None:
    for index in range(100):
        run.node(f"n{index}")
    run.pod(pod("p").requests({f"example.com/{'x' * 40}-{index}": 1 for index in range(100)}))
    (refusal,) = run.round().refusals
    assert len(refusal.reasons) == explain.REASONS_MAX
    assert len(explain.message(refusal.reasons, 100).encode()) <= NOTE_BYTES_MAX


def test_what_a_constraint_says_before_any_node_is_asked_stands_for_all() -> None:
    reasons = (Reason(code="VolumeBinding", message='persistentvolumeclaim "c" not found'),)
    assert explain.message(reasons, 7) == '0/7 nodes are available: persistentvolumeclaim "c" not found.'


def test_of_constraints_that_rule_out_all_nodes_the_first_speaks() -> None:
    rejections = (("VolumeBinding", Rejection(("first",))), ("VolumeZone", Rejection(("second",))))
    assert [reason.message for reason in refusals_of(Compiled(rejections=rejections))] == ["first"]


def test_what_berth_says_itself_stands_alone() -> None:
    reasons = (
        Reason(code="quota", message="quota team: full"),
        Reason(code="NodePorts", message="node(s) are taken", nodes=2),
    )
    assert explain.message(reasons, 2) == "quota team: full; 0/2 nodes are available: 2 node(s) are taken."


def test_quota_is_named_before_any_node(run: Any) -> None:
    run.node("n0")
    run.quota("team", max={names.CPU: 1000})
    run.pod(pod("p").requests(cpu=2000).quota("team"))
    assert told(run.round()) == ["quota team: use of cpu 0 + 2 exceeds its runtime 1"]


def by_name(*names: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_fields=[Requirement(key="metadata.name", operator="In", values=[name]) for name in names]
    )


def required(*terms: NodeSelectorTerm) -> Affinity:
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=list(terms))
        )
    )


def test_nodes_that_no_term_names_are_not_asked(run: Any) -> None:
    run.node("n0", cpu=1000)
    run.node("n1", unschedulable=True)
    run.node("n2", cpu=1000)
    run.pod(pod("p").requests(cpu=4000).template(affinity=required(by_name("n0"), by_name("n1"))))
    assert sorted(told(run.round())) == [
        "Insufficient cpu",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "node(s) were unschedulable",
    ]


def test_terms_that_exclude_each_other_rule_out_every_node(run: Any) -> None:
    run.node("n0")
    run.pod(pod("p").template(affinity=required(by_name("n0", "n1"))))
    (refusal,) = run.round().refusals
    assert explain.message(refusal.reasons, 1) == "0/1 nodes are available: pod affinity terms conflict."
