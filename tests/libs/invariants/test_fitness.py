"""What is broken, gone or closed is given out to nobody, once everybody can have seen that it is (I1e, I1f)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.contracts.ledger import Decision

LATE_S = 11.0
TAINT = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def taint(story: Story, *taints: dict[str, str], node: str = "n1") -> None:
    story.change("nodes", node, {"spec": {"taints": list(taints)}})


def tolerate(story: Story, name: str, toleration: dict[str, Any]) -> None:
    story.change("pods", name, {"spec": {"tolerations": [toleration]}})


def reserve(story: Story, name: str, node: str) -> None:
    """A Reservation that waits is decided."""
    story.put("reservations", name, {"spec": {"template": {"spec": {}}}})
    made = Decision(
        plan="", kind="reservation", namespace="", name=name, uid=f"uid-{name}", attempt=0, node=node, pod_version=1,
        basis=1,
    )  # fmt: skip
    story.commit(made)


def test_what_broke_a_moment_ago_nobody_can_know() -> None:
    story = stage()
    story.health("n1", False, True)
    story.change("nodes", "n2", {"spec": {"unschedulable": True}})
    story.wait(9.9)
    story.place("a", minors={0: 50})
    story.place("b", "n2")
    assert story.broken == []


def test_what_is_whole_again_may_be_used_at_once() -> None:
    story = stage()
    story.health("n1", False, False)
    taint(story, TAINT)
    story.wait(LATE_S)
    story.health("n1", True, False)
    taint(story)
    story.place("a", minors={0: 50})
    assert story.broken == []


def test_who_was_bound_before_stays() -> None:
    story = stage()
    story.place("a", minors={0: 50})
    story.bind("a")
    story.health("n1", False, False)
    taint(story, TAINT)
    story.wait(LATE_S)
    story.change("pods", "a", {"metadata": {"labels": {"seen": "again"}}})
    assert story.broken == []
    assert story.finish() == []


def test_a_bind_is_judged_as_well() -> None:
    story = stage()
    story.place("a", minors={0: 50})
    story.health("n1", False, True)
    story.wait(LATE_S)
    story.bind("a")
    assert story.broken == ["I1e"]
    assert story.finish() == ["I1e"]


@pytest.mark.parametrize("tell", ["trouble", "blind"])
def test_time_of_trouble_does_not_count(tell: str) -> None:
    story = stage()
    story.health("n1", False, True)
    story.wait(5)
    getattr(story.observer, tell)(20)
    story.wait(24.9)
    story.place("a", minors={0: 50})
    assert story.broken == []
    story.wait(0.2)
    story.place("b", minors={0: 50})
    assert story.broken == ["I1e"]


def test_being_blind_excuses_no_gang() -> None:
    story = stage()
    for name in ("g1", "g2"):
        story.pod(name, gang="g", minimum=2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.observer.blind(1_000)
    story.wait(31)
    assert story.broken == ["I3"]


@pytest.mark.parametrize(
    ("toleration", "broken"),
    [
        ({"operator": "Exists"}, []),
        ({"key": TAINT["key"], "operator": "Exists", "effect": "NoExecute"}, []),
        ({"key": TAINT["key"], "operator": "Exists", "effect": "NoSchedule"}, ["I1f"]),
        ({"key": "other", "operator": "Exists"}, ["I1f"]),
    ],
)
def test_who_tolerates_a_taint_may_go_there(toleration: dict[str, Any], broken: list[str]) -> None:
    story = stage()
    tolerate(story, "a", toleration)
    taint(story, TAINT)
    story.wait(LATE_S)
    story.place("a")
    assert story.broken == broken


def test_a_soft_taint_keeps_nobody_off() -> None:
    story = stage()
    taint(story, {"key": "old", "effect": "PreferNoSchedule"})
    story.wait(LATE_S)
    story.place("a")
    assert story.broken == []


def test_a_taint_more_does_not_make_the_first_one_news() -> None:
    story = stage()
    taint(story, TAINT)
    story.wait(LATE_S)
    taint(story, {"key": "new", "effect": "NoSchedule"}, TAINT)
    story.place("a")
    assert story.broken == ["I1f"]
    assert "unreachable:NoExecute for 11.0 s" in str(story.observer.violations[0])


def test_a_node_that_comes_back_has_the_cards_that_it_names() -> None:
    story = stage()
    story.delete("devices", "n1")
    story.delete("nodes", "n1")
    story.wait(LATE_S)
    story.node("n1", gpus=1)
    story.place("a", minors={0: 50})
    assert story.broken == []
    story.place("b", minors={1: 50})
    assert story.broken == ["I1e"]


def test_a_reservation_is_held_to_the_same() -> None:
    story = stage()
    reserve(story, "r1", "n1")
    assert story.broken == []
    story.change("nodes", "n1", {"spec": {"unschedulable": True}})
    story.wait(LATE_S)
    reserve(story, "r2", "n1")
    assert story.broken == ["I1f"]


@pytest.mark.parametrize(("marked", "broken"), [(False, ["I1"]), (True, [])])
def test_no_device_is_given_beside_a_pod_that_holds_nobody_knows_which(marked: bool, broken: list[str]) -> None:
    story = stage()
    story.pod("theirs")
    story.objects["pods"]["theirs"]["metadata"]["uid"] = "uid-of-theirs"
    requests = {"cpu": "1", names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100"}
    spec = {"schedulerName": "other", "containers": [{"name": "main", "resources": {"requests": requests}}]}
    held = json.dumps({"gpu": [{"minor": 1, "resources": {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}}]})
    notes = {names.ANNOTATION_DEVICE_ALLOCATED: held} if marked else {}
    story.change("pods", "theirs", {"metadata": {"annotations": notes}, "spec": {**spec, "nodeName": "n1"}})
    story.wait(LATE_S)
    story.place("a", "n1", {0: 100})
    assert story.broken == broken
