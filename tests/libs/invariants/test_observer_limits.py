"""Limits that change: they bind whoever can have seen them, and nobody is blamed for what was taken before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.libs.invariants.stage import stage, stranger
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.invariants import Excuse

LATE_S = 11.0


def lower(story: Story) -> None:
    """Group blue may use nothing any more."""
    story.change("elasticquotas", "blue", {"spec": {"max": {"cpu": "0"}, "min": {"cpu": "0"}}})


@pytest.mark.parametrize(("waited_s", "broken"), [(9.0, []), (LATE_S, ["I2"])])
def test_a_lowered_limit_binds_once_everybody_can_have_seen_it(waited_s: float, broken: list[str]) -> None:
    story = stage()
    lower(story)
    story.wait(waited_s)
    story.place("a", quota="/company/blue")
    assert story.broken == broken


@pytest.mark.parametrize(("hides", "broken"), [(True, []), (False, ["I2"])])
def test_trouble_that_hides_it_does_not_count(hides: bool, broken: list[str]) -> None:
    story = stage()
    lower(story)
    story.observer.trouble(LATE_S, hides=hides)
    story.wait(LATE_S)
    story.place("a", quota="/company/blue")
    assert story.broken == broken


@pytest.mark.parametrize(("blind_s", "broken"), [(0.0, ["I1b"]), (LATE_S, [])])
def test_so_it_is_with_pods_of_another_scheduler(blind_s: float, broken: list[str]) -> None:
    story = stage()
    story.observer.blind(blind_s)
    stranger(story, "8")
    story.wait(LATE_S)
    story.place("a")
    assert story.broken == broken


def test_a_group_that_is_deleted_charges_nobody_above_it() -> None:
    story = stage()
    story.pod("large", cpu="4")
    story.place("large", quota="/company/blue")
    story.bind("large")
    story.change("elasticquotas", "company", {"spec": {"max": {"cpu": "4"}}})
    story.delete("elasticquotas", "blue")
    story.wait(LATE_S)
    story.place("a", quota="/company/red")
    assert story.broken == []


def test_a_group_that_comes_back_charges_what_it_holds() -> None:
    story = stage()
    story.pod("large", cpu="4")
    story.place("large", quota="/company/blue")
    story.bind("large")
    story.delete("elasticquotas", "blue")
    story.quota("blue", "4", "1", parent="company")
    story.place("a", quota="/company/red")
    assert story.broken == []
    story.place("b", quota="/company/red")
    assert story.broken == ["I2"]
    assert "company" in str(story.observer.violations[0])


@pytest.mark.parametrize("is_named_before", [True, False])
def test_whom_a_pod_names_pays_when_its_payer_is_deleted_and_has_not_taken_it(is_named_before: bool) -> None:
    story = stage()
    story.quota("red", "4", "1", parent="company")
    story.pod("large", cpu="3")
    story.place("large", quota="/company/blue")
    story.bind("large")
    story.place("a", quota="/company/red")
    story.bind("a")
    story.quota("red", "2", "1", parent="company")
    name_red = {"metadata": {"labels": {names.LABEL_QUOTA_NAME: "red"}}}
    if is_named_before:
        story.change("pods", "large", name_red)
    story.delete("elasticquotas", "blue")
    story.change("pods", "large", name_red)
    assert story.broken == []
    story.wait(LATE_S)
    assert story.finish() == []
    story.place("b", quota="/company/red")
    assert story.broken == ["I2"]


def test_who_held_it_before_is_not_blamed() -> None:
    story = stage()
    story.place("a", quota="/company/blue")
    story.bind("a")
    lower(story)
    story.wait(LATE_S)
    story.change("pods", "a", {"status": {"phase": "Succeeded"}})
    assert story.broken == []
    assert story.finish() == []


def test_a_bind_is_not_held_against_a_limit_lowered_since_its_decision() -> None:
    story = stage()
    story.place("a", quota="/company/blue")
    lower(story)
    story.wait(LATE_S)
    story.bind("a")
    assert story.broken == []


def lowered(story: Story) -> None:
    story.quota("blue", "1", "0", parent="company")


def moved(story: Story) -> None:
    story.quota("small", "1")
    story.quota("blue", "4", "0", parent="small")


@pytest.mark.parametrize("change", [lowered, moved])
def test_what_was_held_when_a_limit_came_is_nobodys_mistake_at_the_end(change: Callable[[Story], None]) -> None:
    story = stage()
    story.quota("blue", "4", "4", parent="company")
    story.pod("large", cpu="3", **{names.LABEL_QUOTA_PREEMPTIBLE: "false"})
    story.place("large", quota="/company/blue", non_preemptible=True)
    story.bind("large")
    change(story)
    story.wait(LATE_S)
    assert story.finish() == []
    assert story.observer.verdicts.excuses["I2b", Excuse.LEFT_OVER] == 1
    story.place("a", quota="/company/blue")
    assert story.finish() == ["I2"]


@pytest.mark.parametrize("loses", [False, True])
def test_a_bound_pod_that_comes_to_be_protected_is_nobodys_mistake(loses: bool) -> None:
    story = stage()
    story.quota("blue", "4", "1", parent="company")
    story.pod("large", cpu="3")
    story.place("large", quota="/company/blue")
    story.bind("large")
    if loses:
        story.lose(3)
    story.change("pods", "large", {"metadata": {"labels": {names.LABEL_QUOTA_PREEMPTIBLE: "false"}}})
    assert story.broken == []
    if loses:
        story.epoch(2)
    story.wait(LATE_S)
    assert story.finish() == []
    assert story.observer.verdicts.excuses["I2b", Excuse.LEFT_OVER] == 1
