"""Which events make a rejected pod worth another try."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.libs.rules.queueing.hinting import hint_of

from berth.cluster_watcher.kinds import KINDS
from berth.contracts.kube import Taint
from berth.contracts.state import Node, Pod
from berth.rules.queueing import HINTS, Action, Event, events_of
from berth.rules.queueing.events import NODE, POD
from berth.testing.builders import GI, pod
from berth.testing.vectors import cases

ITEMS = {
    "Pod": "pods",
    "Node": "nodes",
    "CSINode": "csinodes",
}


def state_of(kind: str, item: dict[str, Any] | None) -> Any:
    """An object as STATE shows it; what the case leaves out is filled in."""
    if item is None:
        return None
    meta = {"uid": f"uid-{item['metadata']['name']}", "resourceVersion": "1", **item["metadata"]}
    if kind == "Pod":
        meta.setdefault("namespace", "default")
    found = next(each for each in KINDS if each.plural == ITEMS[kind])
    return found.convert(msgspec.json.decode(json.dumps({**item, "metadata": meta}).encode(), type=found.item), 1)


@pytest.mark.parametrize("case", cases("kube-scheduler/queueing_hints"))
def test_vector(case: dict[str, Any]) -> None:
    given, happened = case["given"], case["given"]["event"]
    old, new = (state_of(happened["resource"], happened[which]) for which in ("old", "new"))
    event = Event(happened["resource"], Action(happened["action"]), old, new)
    hint = hint_of(given["plugin"], state_of("Pod", given["pod"]), event)
    assert (hint is not None) == case["expect"]["registered"]
    assert ("Queue" if hint else "QueueSkip") == case["expect"]["hint"]


def node(**fields: Any) -> Node:
    return Node(**{"name": "n", "uid": "uid-n", "version": 1, "allocatable": {"cpu": 4_000, "pods": 10}, **fields})


def waiting(**fields: Any) -> Pod:
    return pod("waiting").requests(cpu=2_000).template(**fields).build(1)


def actions(resource: str, old: Any, new: Any) -> list[Action]:
    return [event.action for event in events_of(resource, old, new)]


# --- events -----------------------------------------------------------------------------------------------------------


def test_an_object_comes_and_goes() -> None:
    assert actions(NODE, None, node()) == [Action.ADD]
    assert actions(NODE, node(), None) == [Action.DELETE]
    assert events_of(NODE, None, None) == []


def test_a_change_may_be_several_events() -> None:
    changed = node(labels={"a": "1"}, taints=[Taint(key="k", effect="NoSchedule")], allocatable={"cpu": 8_000})
    assert actions(NODE, node(), changed) == [Action.NODE_ALLOCATABLE, Action.NODE_LABEL, Action.NODE_TAINT]


def test_the_end_of_a_cordon_counts_as_a_change_of_taints_and_its_beginning_as_nothing() -> None:
    assert actions(NODE, node(unschedulable=True), node()) == [Action.NODE_TAINT]
    assert actions(NODE, node(), node(unschedulable=True)) == []


def test_a_pod_asks_for_less() -> None:
    assert actions(POD, waiting(), pod("waiting").requests(cpu=1_000).build(2)) == [Action.POD_SCALE_DOWN]


def test_any_other_change_of_a_pod_is_an_update() -> None:
    assert actions(POD, waiting(), pod("waiting").requests(cpu=2_000).set(phase="Running").build(2)) == [Action.UPDATE]


def test_gates_that_are_all_gone() -> None:
    assert actions(POD, waiting(gates=["a", "b"]), waiting(gates=["a"])) == [Action.UPDATE]
    assert actions(POD, waiting(gates=["a"]), waiting()) == [Action.POD_GATES_ELIMINATED]


# --- hints ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({"allocatable": {"cpu": 4_000, "pods": 11}}, True),
        ({"allocatable": {"cpu": 5_000, "pods": 10}}, True),
        ({"allocatable": {"cpu": 4_000, "pods": 10, "memory": GI}}, False),
        ({"allocatable": {"cpu": 1_000, "pods": 99}}, False),
    ],
)
def test_capacity_that_grew(new: dict[str, Any], expected: bool) -> None:
    (event,) = events_of(NODE, node(), node(**new))
    assert hint_of("NodeResourcesFit", waiting(), event) is expected


def test_a_new_node_that_is_too_small_holds_nothing() -> None:
    assert not hint_of("NodeResourcesFit", waiting(), Event(NODE, Action.ADD, None, node(allocatable={"cpu": 4_000})))


def test_a_pending_pod_that_goes_frees_nothing() -> None:
    gone = pod("gone").requests(cpu=4_000).port(80)
    for plugin in ("NodeResourcesFit", "NodePorts"):
        asked = pod("waiting").port(80).build(1)
        assert hint_of(plugin, asked, Event(POD, Action.DELETE, gone.build(1))) is False
        assert hint_of(plugin, asked, Event(POD, Action.DELETE, gone.set(nominated="n").build(1))) is True
        gone.set(nominated="")


def test_another_port_is_of_no_use() -> None:
    gone = pod("gone").port(81).on("n").build(1)
    assert hint_of("NodePorts", pod("waiting").port(80).build(1), Event(POD, Action.DELETE, gone)) is False


def test_a_taint_that_was_tolerated_all_along_keeps_nobody_off() -> None:
    asked = pod("waiting").tolerates("k").build(1)
    (event,) = events_of(NODE, node(taints=[Taint(key="k", effect="NoSchedule")]), node())
    assert hint_of("TaintToleration", asked, event) is False
    assert hint_of("TaintToleration", waiting(), event) is True


def test_only_the_waiting_pod_itself_gains_a_toleration() -> None:
    tolerant = pod("waiting").tolerates("node.kubernetes.io/unschedulable")
    (event,) = events_of(POD, waiting(), tolerant.requests(cpu=2_000).build(2))
    assert hint_of("NodeUnschedulable", waiting(), event) is True
    assert hint_of("NodeUnschedulable", pod("other").build(1), event) is False


def test_what_a_constraint_does_not_listen_to() -> None:
    (event,) = events_of(NODE, node(), node(labels={"a": "1"}))
    assert hint_of("NodeResourcesFit", waiting(), event) is None


def test_every_hint_is_of_an_action_that_its_resource_can_have() -> None:
    for hints in HINTS.values():
        for resource, action in hints:
            special = action not in (Action.ADD, Action.DELETE, Action.UPDATE)
            assert not special or action.value.startswith(f"Update{resource}")
