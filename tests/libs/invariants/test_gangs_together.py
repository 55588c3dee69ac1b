"""Gangs that start together: what befalls one of them in mid-bind leaves the other half there, and is excused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.contracts.ledger import GangRef

LONG_S = 100.0
TOGETHER = {names.ANNOTATION_GANG_GROUPS: '["default/g", "default/h"]'}


def by_group(story: Story, gang: str) -> None:
    story.put("podgroups", gang, {"metadata": {"annotations": dict(TOGETHER)}, "spec": {"minMember": 1}}, "default")
    story.pod(f"{gang}1", **{names.LABEL_POD_GROUP: gang})


def by_annotations(story: Story, gang: str) -> None:
    story.pod(f"{gang}1", gang=gang, minimum=1)
    story.objects["pods"].pop(f"{gang}1")
    notes = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN: "1", **TOGETHER}
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": containers}
    body = {"metadata": {"annotations": notes, "labels": {}}, "spec": spec, "status": {"phase": "Pending"}}
    story.put("pods", f"{gang}1", body, "default")


Made = Callable[[Story, str], None]


def half_bound(made: Made) -> Story:
    """h's only member is bound to n1, g's decided for n2."""
    story = stage()
    for gang in "gh":
        made(story, gang)
    ref = GangRef(name="default/g,default/h", size=2)
    story.commit(story.decision("g1", "n2", gang=ref), story.decision("h1", gang=ref))
    story.bind("h1")
    story.wait(1)
    return story


@pytest.mark.parametrize("made", [by_group, by_annotations])
def test_one_is_deleted(made: Made) -> None:
    story = half_bound(made)
    story.delete("pods", "g1")
    story.wait(LONG_S)
    assert (story.broken, story.finish(quiet=True)) == ([], [])


@pytest.mark.parametrize("made", [by_group, by_annotations])
def test_ones_node_goes(made: Made) -> None:
    story = half_bound(made)
    story.delete("nodes", "n2")
    story.withdraw("g1")
    story.wait(LONG_S)
    assert (story.broken, story.finish(quiet=True)) == ([], [])


def test_one_is_deleted_with_its_group_first() -> None:
    story = half_bound(by_group)
    story.delete("podgroups", "g")
    story.delete("pods", "g1")
    story.put("podgroups", "g", {"metadata": {"annotations": dict(TOGETHER)}, "spec": {"minMember": 1}}, "default")
    story.wait(LONG_S)
    assert (story.broken, story.finish(quiet=True)) == ([], [])


@pytest.mark.parametrize("made", [by_group, by_annotations])
def test_one_is_withdrawn_for_no_reason(made: Made) -> None:
    story = half_bound(made)
    story.withdraw("g1")
    story.wait(31)
    assert story.broken == ["I3"]


def test_whoever_is_whole_again_is_excused_no_more() -> None:
    story = half_bound(by_group)
    story.delete("pods", "g1")
    assert story.observer.world().excused_gangs == {"default/g", "default/h"}
    story.pod("g1", uid="uid-of-the-next", **{names.LABEL_POD_GROUP: "g"})
    story.place("g1")
    story.bind("g1")
    assert story.observer.world().excused_gangs == frozenset()
    assert story.broken == []


def test_a_gang_that_is_gone_is_remembered_no_more() -> None:
    story = half_bound(by_group)
    story.delete("podgroups", "g")
    story.delete("pods", "g1")
    story.pod("other", uid="uid-of-another-gang", **{names.LABEL_POD_GROUP: "g"})
    story.delete("pods", "other")
    story.delete("pods", "h1")
    story.delete("podgroups", "h")
    assert story.observer.gangs._together == {}


@pytest.mark.parametrize("asked", [1, 2])
def test_only_a_group_that_comes_to_ask_for_more_is_excused(asked: int) -> None:
    story = stage()
    for number in (1, 2):
        story.pod(f"g{number}", **{names.LABEL_POD_GROUP: "g"})
    story.put("podgroups", "g", {"metadata": {}, "spec": {"minMember": 1}}, "default")
    story.commit(story.decision("g1", gang=GangRef(name="default/g", size=1)))
    story.bind("g1")
    story.put("podgroups", "g", {"metadata": {}, "spec": {"minMember": asked}}, "default")
    assert story.observer.world().excused_gangs == ({"default/g"} if asked > 1 else frozenset())
    story.wait(LONG_S)
    assert (story.broken, story.finish(quiet=True)) == ([], [])
