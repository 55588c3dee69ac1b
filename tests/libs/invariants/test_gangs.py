"""A strict gang is bound whole or not at all: I3."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.worlds import check_of, meta, pod

from berth.contracts import names


def member(name: str, node: str, *, minimum: int = 3, mode: str = "Strict", gang: str = "g") -> dict[str, Any]:
    notes = {
        names.ANNOTATION_GANG_NAME: gang,
        names.ANNOTATION_GANG_MIN: str(minimum),
        names.ANNOTATION_GANG_MODE: mode,
    }
    return pod(name, node, notes=notes)


@pytest.mark.parametrize(("bound", "holds"), [(0, True), (1, False), (2, False), (3, True), (4, True)])
def test_a_strict_gang_is_whole_or_not_there(bound: int, holds: bool) -> None:
    pods = [member(f"p{index}", "n1" if index < bound else "") for index in range(4)]
    assert check_of(pods=pods) == ([] if holds else ["I3"])
    assert check_of(pods=pods, is_quiet=False) == []
    assert check_of(pods=pods, excused_gangs=["default/g"]) == []


def test_other_gangs_may_be_half_there() -> None:
    assert check_of(pods=[member("a", "n1", mode="NonStrict"), member("b", "", mode="NonStrict")]) == []


def test_gangs_that_start_together_are_excused_together() -> None:
    notes = {names.ANNOTATION_GANG_GROUPS: '["default/g", "default/h"]'}
    groups = [
        {"metadata": {**meta(name, namespace="default"), "annotations": notes}, "spec": {"minMember": 1}}
        for name in ("g", "h")
    ]
    pods = [pod("a", "n1", labels={names.LABEL_POD_GROUP: "h"})]  # all of g were deleted after they had begun
    assert check_of(pods=pods, pod_groups=groups) == ["I3"]
    assert check_of(pods=pods, pod_groups=groups, excused_gangs=["default/h"]) == []


def test_the_pod_group_says_how_many() -> None:
    group = {"metadata": meta("g", namespace="default"), "spec": {"minMember": 2}}
    labels = {names.LABEL_POD_GROUP: "g"}
    pods = [pod("a", "n1", labels=labels), pod("b", labels=labels)]
    assert check_of(pods=pods, pod_groups=[group]) == ["I3"]
    assert check_of(pods=[pods[0], pod("b", "n2", labels=labels)], pod_groups=[group]) == []


def test_a_group_of_gangs_begins_together() -> None:
    def two(b_node: str) -> list[dict[str, Any]]:
        pods = [member("a", "n1", minimum=1, gang="one"), member("b", b_node, minimum=1, gang="two")]
        for each in pods:
            each["metadata"]["annotations"][names.ANNOTATION_GANG_GROUPS] = '["default/one","default/two"]'
        return pods

    assert check_of(pods=two("n2")) == []
    assert check_of(pods=two("")) == ["I3"]


def reserving(name: str, node: str, phase: str = "", **template: Any) -> dict[str, Any]:
    notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "3"}
    status = {"phase": phase, "nodeName": node}
    return {
        "metadata": meta(name),
        "spec": {"template": {"metadata": {"annotations": notes, **template}}},
        "status": status,
    }


@pytest.mark.parametrize(
    ("node", "phase", "holds"), [("n1", "Available", True), ("n1", "Succeeded", True), ("", "", False)]
)
def test_a_reservation_is_a_member(node: str, phase: str, holds: bool) -> None:
    pods = [member("a", "n1"), member("b", "n1")]
    broken = [each for each in check_of(pods=pods, reservations=[reserving("r", node, phase)]) if each == "I3"]
    assert broken == ([] if holds else ["I3"])


def test_it_is_one_where_its_template_lives() -> None:
    pods = [member("a", "n1"), member("b", "n1")]
    assert "I3" in check_of(pods=pods, reservations=[reserving("r", "n1", "Available", namespace="another")])
