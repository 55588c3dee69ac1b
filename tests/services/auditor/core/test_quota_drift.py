"""What ElasticQuotas show as used, against their pods, over two looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.libs.invariants.story import Story
from tests.services.auditor.looks import lists_of

from berth.auditor.core.quota_drift import drifted
from berth.contracts import names
from berth.contracts.quota import QuotaRules
from berth.invariants import World
from berth.invariants.facts import Facts


def quota(story: Story, name: str, used: dict[str, str] | None, parent: str = "", **most: str) -> None:
    story.quota(name, most.get("cpu", "8"))
    change: dict[str, Any] = {"metadata": {"labels": {names.LABEL_QUOTA_PARENT: parent}}}
    if used is not None:
        change["status"] = {"used": used}
    story.change("elasticquotas", name, change)


def bound(story: Story, name: str, group: str, cpu: str = "1") -> None:
    story.pod(name, cpu=cpu)
    story.change("pods", name, {"metadata": {"labels": {names.LABEL_QUOTA_NAME: group}}, "spec": {"nodeName": "n1"}})


def world(story: Story) -> World:
    lists = lists_of(story)
    return World.of(pods=lists.pods, nodes=lists.nodes, quotas=lists.quotas)


def found(first: World, second: World | None = None) -> list[str]:
    return [finding.text for finding in drifted(Facts.of(first), Facts.of(second or first))]


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", cpu="64")
    return made


def test_a_group_that_shows_what_its_pods_hold(story: Story) -> None:
    quota(story, "blue", {"cpu": "3"})
    bound(story, "a", "blue")
    bound(story, "b", "blue", cpu="2")
    assert found(world(story)) == []


@pytest.mark.parametrize("used", ["0", "1", "4"])
def test_a_group_that_shows_less_or_more(story: Story, used: str) -> None:
    quota(story, "blue", {"cpu": used})
    bound(story, "a", "blue", cpu="2")
    (text,) = found(world(story))
    assert text == f"quota blue: its status shows {used}000 cpu as used, its pods hold 2000".replace(" 0000 ", " 0 ")


def test_what_moves_between_two_looks_explains_what_is_shown(story: Story) -> None:
    quota(story, "blue", {"cpu": "1"})
    bound(story, "a", "blue")
    first = world(story)
    bound(story, "b", "blue")
    assert found(first, world(story)) == []
    assert found(world(story)) != []


def test_groups_above_count_what_those_below_use_of_their_limits(story: Story) -> None:
    quota(story, "top", {"cpu": "2"})
    quota(story, "blue", {"cpu": "2"}, parent="top")
    bound(story, "a", "blue", cpu="2")
    assert found(world(story)) == []
    quota(story, "green", {"cpu": "5"}, parent="top")
    bound(story, "b", "green", cpu="5")
    assert [text.split(":")[0] for text in found(world(story))] == ["quota top"]


def test_nothing_is_said_while_groups_change_or_show_nothing(story: Story) -> None:
    quota(story, "blue", None)
    bound(story, "a", "blue")
    first = world(story)
    assert found(first) == []
    quota(story, "blue", {"cpu": "7"})
    assert found(first, world(story)) == []
    assert found(world(story)) != []


def test_what_is_shown_follows_the_switches_of_quota_manager(story: Story) -> None:
    """The overhead of a pod and a pod that is terminating are not charged where it is set so."""
    quota(story, "blue", {"cpu": "2"})
    bound(story, "a", "blue", cpu="2")
    story.change("pods", "a", {"spec": {"overhead": {"cpu": "1"}}})
    bound(story, "b", "blue")
    story.change("pods", "b", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    seen = world(story)
    assert found(seen) != []
    rules = QuotaRules(ignores_overhead=True, ignores_terminating=True)
    assert found(replace(seen, quota_rules=rules)) == []
    assert found(seen, replace(seen, quota_rules=rules)) == []
