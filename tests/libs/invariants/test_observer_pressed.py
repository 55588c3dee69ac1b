"""Who leaves for a node's sake: once for one need, and only whom the node's strategy may name (I37)."""

from __future__ import annotations

import pytest
from tests.libs.invariants.story import Story

from berth.contracts.names import LABEL_QOS
from berth.rules.node_evictions.notes import NodeEviction, eviction_note

MOMENT = "2025-01-01T00:00:00Z"
PROTECTED = "scheduling.koordinator.sh/disable-preemptible"


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", cpu="64")
    for name in "pqr":
        made.pod(name, **{LABEL_QOS: "BE"})
        made.change("pods", name, {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})
    made.wait(60.0)
    made.observer.verdicts.found.clear()
    return made


def evict(story: Story, name: str, revision: int, *, release: int = 10, **fields: str) -> None:
    said = {"node": "n1", "need": "BEMemoryEvict-1", "feature": "BEMemoryEvict", "accumulator": "podUsed", **fields}
    note = NodeEviction(revision=revision, release={"memory": release}, counts={"memory": 10}, **said)  # type: ignore[arg-type]
    story.change("pods", name, {"metadata": {"annotations": eviction_note(note)}})
    story.observer.by_berth(True)
    story.change("pods", name, {"metadata": {"deletionTimestamp": MOMENT}})
    story.observer.by_berth(False)


def test_nobody_leaves_for_a_need_that_is_covered(story: Story) -> None:
    evict(story, "p", 1)
    assert story.broken == []
    evict(story, "q", 2, release=11)
    assert story.broken == []
    evict(story, "r", 3, release=20)
    assert story.broken == ["I37"]
    assert story.observer.verdicts.judgements["I37"] == 3


def test_who_has_left_covers_nothing_any_more(story: Story) -> None:
    evict(story, "p", 1)
    story.delete("pods", "p")
    evict(story, "q", 2)
    assert story.broken == []


def test_the_order_counts_in_which_they_were_let_go(story: Story) -> None:
    evict(story, "q", 2, release=11)
    evict(story, "p", 1)
    assert story.broken == []


@pytest.mark.parametrize("fields", [{"node": "n2"}, {"feature": "MemoryEvict"}, {"feature": "Whim"}])
def test_who_may_not_be_named_stays(story: Story, fields: dict[str, str]) -> None:
    evict(story, "p", 1, **fields)
    assert story.broken == ["I37"]


def test_who_is_protected_stays(story: Story) -> None:
    story.change("pods", "p", {"metadata": {"labels": {PROTECTED: "true"}}})
    evict(story, "p", 1)
    assert story.broken == ["I11e"]
