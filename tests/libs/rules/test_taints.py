"""Taints and tolerations."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import Node, Pod, Taint, Toleration
from berth.rules.taints import Tolerations, tolerates
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/taint_toleration"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    tolerations = Tolerations(msgspec.convert(given["tolerations"], list[Toleration]))
    taints = msgspec.convert(given["taints"], list[Taint])
    unschedulable = given["unschedulable"]
    rejecting = tolerations.first_untolerated(taints)
    if expect["rejectedBy"] == "unschedulable":
        assert not tolerations.admit([], unschedulable=unschedulable)
    else:
        assert (f"taint {rejecting.key}" if rejecting else "") == expect["rejectedBy"]
    assert tolerations.admit(taints, unschedulable=unschedulable) == (expect["rejectedBy"] == "")
    assert tolerations.count_soft_untolerated(taints) == expect["untoleratedPreferNoSchedule"]


def world(case: dict[str, Any]) -> tuple[Tolerations, dict[str, list[Taint]]]:
    pod = msgspec.convert(case["given"]["pod"], Pod)
    nodes = msgspec.convert(case["given"]["nodes"], list[Node])
    return Tolerations(pod.spec.tolerations or []), {node.metadata.name: node.spec.taints or [] for node in nodes}


@pytest.mark.parametrize("case", cases("kube-scheduler/taint_toleration_filter"))
def test_filter_vector(case: dict[str, Any]) -> None:
    tolerations, nodes = world(case)
    for name, expect in case["expect"]["nodes"].items():
        passes = tolerations.first_untolerated(nodes[name]) is None
        assert passes == (expect["code"] == "Success")
        assert bool(expect.get("reasons")) != passes


@pytest.mark.parametrize("case", cases("kube-scheduler/taint_toleration_score"))
def test_score_vector(case: dict[str, Any]) -> None:
    tolerations, nodes = world(case)
    feasible = case["given"].get("feasibleNodes", list(nodes))
    raw = [tolerations.count_soft_untolerated(nodes[name]) for name in feasible]
    assert dict(zip(feasible, raw, strict=True)) == case["expect"]["raw"]


def test_an_unschedulable_node_without_the_toleration() -> None:
    assert not Tolerations([]).admit([], unschedulable=True)
    assert Tolerations([Toleration(operator="Exists")]).admit([], unschedulable=True)


def test_an_unknown_operator_tolerates_nothing() -> None:
    taint = Taint(key="a", effect="NoSchedule", value="1")
    assert not tolerates(Toleration(key="a", operator="Like", value="1"), taint)
    assert tolerates(Toleration(key="a", operator="", value="1"), taint)


words = st.sampled_from(["", "a", "b"])
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taints = st.lists(st.builds(Taint, key=words, value=words, effect=effects), max_size=5)
tolerations = st.lists(
    st.builds(
        Toleration,
        key=words,
        value=words,
        operator=st.sampled_from(["", "Equal", "Exists", "Other"]),
        effect=st.one_of(st.just(""), effects),
    ),
    max_size=4,
)


@given(tolerations, tolerations, taints)
def test_more_tolerations_never_close_a_node(some: list[Toleration], more: list[Toleration], node: list[Taint]) -> None:
    if Tolerations(some).first_untolerated(node) is None:
        assert Tolerations([*some, *more]).first_untolerated(node) is None
    assert Tolerations([*some, *more]).count_soft_untolerated(node) <= Tolerations(some).count_soft_untolerated(node)


@given(tolerations, taints)
def test_remembered_answers_equal_fresh_ones(some: list[Toleration], node: list[Taint]) -> None:
    compiled = Tolerations(some)
    first = [compiled.tolerate(taint) for taint in node]
    assert [compiled.tolerate(taint) for taint in node] == first
    assert first == [any(tolerates(each, taint) for each in some) for taint in node]
