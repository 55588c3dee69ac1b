"""Gangs that may be half there: why, and for how long."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.libs.invariants.stage import gang
from tests.libs.invariants.story import Story

from berth.auditor.core.gangs import GangMemory
from berth.contracts import kube, names

OURS = frozenset({names.SCHEDULER_NAME})
G = {"default/g"}


def stage(*bound: str) -> Story:
    story = Story()
    story.node()
    gang(story, 3)
    story.gang("g1", "g2", "g3")
    for name in bound:
        story.bind(name)
    return story


def look(memory: GangMemory, story: Story) -> set[str]:
    pods = [msgspec.convert(each, kube.Pod) for each in story.objects["pods"].values()]
    groups = [msgspec.convert(each, kube.PodGroup) for each in story.objects.get("podgroups", {}).values()]
    reserved = [msgspec.convert(each, kube.Reservation) for each in story.objects.get("reservations", {}).values()]
    memory.look(pods, groups, OURS, reserved)
    return memory.excused


def begun(*bound: str) -> tuple[Story, GangMemory]:
    memory = GangMemory()
    assert look(memory, stage()) == set()
    story = stage(*bound)
    assert look(memory, story) == set()
    return story, memory


def test_a_withdrawal_excuses_until_the_gang_is_whole_again() -> None:
    story, memory = begun("g1", "g2")
    story.withdraw("g3")
    assert look(memory, story) == G
    assert look(memory, story) == G
    story.place("g3")
    story.bind("g3")
    assert look(memory, story) == set()


def test_one_of_long_ago_excuses_nothing_new() -> None:
    story, memory = begun()
    story.withdraw("g3")
    assert look(memory, story) == set()
    story.bind("g1")
    assert look(memory, story) == set()


def test_a_member_that_leaves_excuses_a_gang_that_is_short_of_it() -> None:
    story, memory = begun("g1", "g2", "g3")
    story.delete("pods", "g3")
    assert look(memory, story) == G
    story.pod("g4", gang="g", minimum=3)
    story.place("g4")
    story.bind("g4")
    assert look(memory, story) == set()


def test_one_too_many_that_leaves_excuses_nothing() -> None:
    story, memory = begun("g1", "g2", "g3")
    story.put("podgroups", "g", {"spec": {"minMember": 2}}, "default")
    story.delete("pods", "g3")
    assert look(memory, story) == set()


def test_what_was_half_there_when_we_came_is_excused() -> None:
    assert look(GangMemory(), stage("g1")) == G
    assert look(GangMemory(), stage("g1", "g2", "g3")) == set()


def pair(size: int) -> tuple[Story, GangMemory]:
    """Two gangs that start together, each of so many members, begun."""
    story = Story()
    story.node(cpu="16")
    for name in "gh":
        story.put("podgroups", name, pod_group(), "default")
        for number in range(size):
            story.pod(f"{name}{number}", **{names.LABEL_POD_GROUP: name})
            story.place(f"{name}{number}")
            story.bind(f"{name}{number}")
    memory = GangMemory()
    assert look(memory, story) == set()
    return story, memory


def pod_group() -> dict[str, Any]:
    notes = {names.ANNOTATION_GANG_GROUPS: '["default/g", "default/h"]'}
    return {"metadata": {"annotations": notes}, "spec": {"minMember": 2}}


def test_gangs_that_start_together_are_excused_together() -> None:
    story, memory = pair(2)
    story.delete("pods", "h0")
    assert look(memory, story) == {"default/g", "default/h"}
    story.delete("pods", "h1")
    assert look(memory, story) == {"default/g", "default/h"}
    story.delete("pods", "g0")
    story.delete("pods", "g1")
    assert look(memory, story) == set()


def test_a_whole_gang_that_leaves_between_two_looks_excuses_the_one_it_started_with() -> None:
    story, memory = pair(2)
    for name in ("h0", "h1"):
        story.delete("pods", name)
    story.delete("podgroups", "h")
    assert look(memory, story) == {"default/g", "default/h"}


def test_a_group_that_is_deleted_and_made_again_is_no_less_excused() -> None:
    story, memory = pair(2)
    for name in ("h0", "h1"):
        story.delete("pods", name)
    assert look(memory, story) == {"default/g", "default/h"}
    story.delete("podgroups", "g")
    assert look(memory, story) == {"default/g", "default/h"}
    story.put("podgroups", "g", pod_group(), "default")
    assert look(memory, story) == {"default/g", "default/h"}


def test_members_that_came_and_went_between_two_looks_excuse_their_gang() -> None:
    story, _ = pair(2)
    memory = GangMemory()
    assert look(memory, stage()) == set()
    for name in ("h0", "h1"):
        story.delete("pods", name)
    assert look(memory, story) == {"default/g", "default/h"}


def test_a_reservation_that_is_lost_excuses_its_gang() -> None:
    memory, story = GangMemory(), stage("g1", "g2")
    notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "3"}
    story.reservation("r", template={"metadata": {"annotations": notes}})
    look(memory, story)
    assert look(memory, story) == set(), "whole: two pods and a Reservation"
    story.delete("reservations", "r")
    assert look(memory, story) == G
