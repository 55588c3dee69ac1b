"""What is lent on reports that are too old (I42)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.libs.invariants.story import Story

from berth.contracts.ledger import Allocation
from berth.contracts.names import ANNOTATION_COLOCATION_STRATEGY, BATCH_CPU

HOME = "berth-system"


def config(story: Story, text: str = "", **strategy: Any) -> None:
    data = {"colocation-config": text or json.dumps({"enable": True, **strategy})}
    story.put("configmaps", "slo-controller-config", {"data": data}, HOME)


def borrow(story: Story, name: str, offer: int = 5) -> None:
    allocation = Allocation(amounts={BATCH_CPU: 1_000})
    story.commit(story.decision(name, offer=offer, allocation=allocation, node_uid="uid-n1"))


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", cpu="64")
    for name in "pqrs":
        made.pod(name)
    made.wait(60.0)
    config(made, degradeTimeMinutes=1)
    made.observer.news.reported("n1")
    return made


def excused(story: Story) -> int:
    return sum(count for (law, _), count in story.observer.verdicts.excuses.items() if law == "I42")


def test_a_report_counts_for_so_long_and_until_everybody_can_have_seen_that_it_does_not(story: Story) -> None:
    story.wait(59.0)
    borrow(story, "p")
    assert (story.broken, excused(story)) == ([], 0)
    story.wait(10.0)
    borrow(story, "q")
    assert (story.broken, excused(story)) == ([], 1)
    assert list(story.observer.news.silent()) == []
    story.wait(3.0)
    borrow(story, "r")
    assert story.broken == ["I42"]
    ((node, why),) = story.observer.news.silent()
    assert (node, why) == ("n1", "of which nothing was heard for 72 s, and a report counts for 60 s")


def test_a_new_report_counts_anew(story: Story) -> None:
    story.wait(50.0)
    story.observer.news.reported("n1")
    story.wait(50.0)
    borrow(story, "p")
    assert (story.broken, story.observer.verdicts.judgements["I42"]) == ([], 1)


@pytest.mark.parametrize("why", ["borrows nothing", "unknown", "strategy of its own", "patient", "another map", "text"])
def test_what_is_not_judged(story: Story, why: str) -> None:
    if why == "strategy of its own":
        notes = {ANNOTATION_COLOCATION_STRATEGY: '{"degradeTimeMinutes": 90}'}
        story.change("nodes", "n1", {"metadata": {"annotations": notes}})
    elif why == "patient":
        config(story, degradeTimeMinutes=1, nodeConfigs=[{"name": "a", "degradeTimeMinutes": 9}, "b"])
    elif why == "another map":
        config(story)
        story.put("configmaps", "other", {"data": {"colocation-config": '{"degradeTimeMinutes": 1}'}}, HOME)
    elif why == "text":
        config(story, degradeTimeMinutes=4)
        config(story, "{")
    story.wait(200.0)
    if why == "unknown":
        story.node("n2", cpu="64")
    allocation = Allocation(amounts={BATCH_CPU: 1_000})
    node = "n2" if why == "unknown" else "n1"
    offer = 0 if why == "borrows nothing" else 5
    story.commit(story.decision("p", node, offer=offer, allocation=allocation, node_uid=f"uid-{node}"))
    assert "I42" not in story.broken
