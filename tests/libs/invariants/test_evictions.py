"""Evictions as an observer judges them (I11): who is named, who is lower, who gets what was left, and what remains."""

from __future__ import annotations

import pytest
from tests.libs.invariants.story import Story

from berth.contracts.ledger import Victim
from berth.rules.eviction_notes import Mark, mark_note
from berth.rules.preemption import BY_SCHEDULER

MOMENT = "2026-01-01T00:00:00Z"


@pytest.fixture
def story() -> Story:
    """A node of 8 cores which `low` fills, and `high`, which waits for it."""
    made = Story()
    made.node("n1")
    made.pod("low", "8")
    made.pod("high", "8")
    made.change("pods", "high", {"spec": {"priority": 9}})
    made.place("low")
    made.bind("low")
    return made


def nominate(story: Story, *victims: str, name: str = "high") -> str:
    listed = [
        Victim(namespace="default", name=each, uid=f"uid-{each}", version=story.version, node="n1") for each in victims
    ]
    return story.place(name, nominates=True, victims=listed)


def mark(story: Story, victim: str, plan: str, beneficiary: str = "high") -> None:
    note = mark_note(Mark(plan, f"default/{beneficiary}", f"uid-{beneficiary}", BY_SCHEDULER))
    story.change("pods", victim, {"metadata": {"annotations": note}})


def evict(story: Story, victim: str, plan: str, beneficiary: str = "high") -> None:
    """Mark, condition, deletion: the pod is leaving."""
    mark(story, victim, plan, beneficiary)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": BY_SCHEDULER}
    story.change("pods", victim, {"status": {"conditions": [condition]}})
    story.change("pods", victim, {"metadata": {"deletionTimestamp": MOMENT}})


def test_an_eviction_by_the_rules_breaks_nothing(story: Story) -> None:
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("high")
    story.bind("high")
    assert story.broken == []
    assert story.finish(quiet=True) == []


def test_a_victim_that_no_plan_names(story: Story) -> None:
    plan = nominate(story)
    evict(story, "low", plan)
    assert story.broken == ["I11"]


def test_a_victim_for_a_pod_that_has_been_gone_for_a_while(story: Story) -> None:
    plan = nominate(story, "low")
    story.delete("pods", "high")
    story.wait(60.0)
    evict(story, "low", plan)
    assert story.broken == ["I11"]


def test_a_deletion_that_is_on_its_way_while_its_beneficiary_goes_is_nobodys_fault(story: Story) -> None:
    plan = nominate(story, "low")
    story.delete("pods", "high")
    story.wait(0.5)
    evict(story, "low", plan)
    assert story.broken == []


def test_a_victim_for_a_pod_that_was_withdrawn_a_while_ago(story: Story) -> None:
    plan = nominate(story, "low")
    story.withdraw("high")
    story.wait(60.0)
    evict(story, "low", plan)
    assert story.broken == ["I11"]


def test_a_deletion_by_anybody_else_is_not_judged(story: Story) -> None:
    mark(story, "low", "unknown")
    story.change("pods", "low", {"metadata": {"deletionTimestamp": MOMENT}})
    assert story.broken == []


def test_a_victim_of_equal_priority(story: Story) -> None:
    story.change("pods", "low", {"spec": {"priority": 9}})
    plan = nominate(story, "low")
    evict(story, "low", plan)
    assert story.broken == ["I11b"]


def test_what_was_left_for_a_pod_is_not_for_an_equal_one(story: Story) -> None:
    story.pod("thief", "4")
    story.change("pods", "thief", {"spec": {"priority": 9}})
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("thief")
    assert story.broken == ["I11d"]


def test_a_higher_pod_may_take_what_was_left(story: Story) -> None:
    story.pod("top", "4")
    story.change("pods", "top", {"spec": {"priority": 20}})
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("top")
    assert story.broken == []


def test_once_a_nomination_is_given_up_anybody_may_take_it(story: Story) -> None:
    story.pod("later", "4")
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.withdraw("high")
    story.place("later")
    assert story.broken == []


def test_nominations_and_marks_end_once_all_is_quiet(story: Story) -> None:
    plan = nominate(story, "low")
    assert story.finish(quiet=False) == []
    assert story.finish(quiet=True) == ["I4", "I11c"]
    story.delete("pods", "high")
    story.tidy("high")
    assert story.finish(quiet=True) == []
    mark(story, "low", plan)
    assert story.finish(quiet=True) == ["I11c"]
