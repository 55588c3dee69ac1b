"""A Reservation that is placed comes to hold more as a decision says, and as its node has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.contracts.ledger import Allocation, Decision

PROMISE = "I30c"


def decided(story: Story, cpu: int = 6000, grows: str = "", **fields: Any) -> Decision:
    meta = story.objects["reservations"]["r"]["metadata"]
    known: dict[str, Any] = {
        "plan": "", "kind": "reservation", "namespace": "", "name": "r", "uid": meta["uid"], "attempt": 0,
        "node": "n1", "pod_version": 1, "basis": 1, "allocation": Allocation(amounts={"cpu": cpu}),
        "grows": grows or meta["annotations"].get(names.ANNOTATION_PLAN, ""),
    }  # fmt: skip
    plan = story.commit(Decision(**(known | fields)))
    story.lease(plan)
    return story.decisions["r"]


def placed() -> Story:
    """By a decision of this story."""
    story = stage()
    owners = [{"labelSelector": {"matchLabels": {"app": "db"}}}]
    spec = {"owners": owners, "template": {}, "allocateOnce": False}
    story.put("reservations", "r", {"metadata": {"annotations": {}}, "spec": spec, "status": {}})
    made = decided(story, cpu=4000)
    noted(story, made)
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "4"}}
    story.change("reservations", "r", {"status": status})
    return story


def shows(story: Story, cpu: str = "6") -> None:
    story.change("reservations", "r", {"status": {"allocatable": {"cpu": cpu}}})


def noted(story: Story, made: Decision) -> None:
    story.change("reservations", "r", {"metadata": {"annotations": {names.ANNOTATION_PLAN: made.plan}}})


def test_as_it_is_meant() -> None:
    story = placed()
    made = decided(story)
    assert story.finish(quiet=True) == ["I4"], "not carried out yet"
    shows(story)
    noted(story, made)
    shows(story, "5")
    made = decided(story, cpu=8000)
    shows(story, "8")
    noted(story, made)
    assert (story.broken, story.finish(quiet=True)) == ([], [])


def test_one_that_is_withdrawn_is_over() -> None:
    story = placed()
    decided(story)
    story.change("reservations", "r", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
    made = decided(story, attempt=1)
    shows(story)
    noted(story, made)
    assert (story.broken, story.finish()) == ([], [])


def undecided(story: Story) -> None:
    shows(story)


def too_much(story: Story) -> None:
    decided(story)
    shows(story, "7")


def too_early(story: Story) -> None:
    noted(story, decided(story))


def overtaken(story: Story) -> None:
    made = decided(story)
    shows(story)
    noted(story, made)
    shows(story, "2")
    decided(story, cpu=8000, grows="made before")
    shows(story, "8")


@pytest.mark.parametrize("wrong", [undecided, too_much, too_early, overtaken], ids=lambda wrong: str(wrong.__name__))
def test_what_is_wrong(wrong: Callable[[Story], None]) -> None:
    story = placed()
    wrong(story)
    assert PROMISE in story.broken


def test_what_grows_leaves_free_what_others_hold() -> None:
    story = placed()
    story.pod("p", cpu="4")
    story.place("p", "n1")
    decided(story, cpu=5000)
    assert story.broken == ["I10b"]
