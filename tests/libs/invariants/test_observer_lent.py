"""What is lent of a node against what it offers in the revision that a decision names (I36)."""

from __future__ import annotations

import pytest
from tests.libs.invariants.story import Story

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation
from berth.contracts.names import BATCH_CPU
from berth.contracts.slo import NodeOffer, Offer


def offer(story: Story, revision: int, amount: int, uid: str = "uid-n1") -> None:
    said = NodeOffer(node="n1", uid=uid, revision=revision, offers={BATCH_CPU: Offer(amount=amount)})
    story.observer.slo(subjects.named_key("offer", "n1"), encode(said), False)


def borrow(story: Story, name: str, revision: int, amount: int = 2_000, **fields: str) -> None:
    allocation = Allocation(amounts={BATCH_CPU: amount})
    made = story.decision(name, offer=revision, allocation=allocation, **{"node_uid": "uid-n1"} | fields)
    story.commit(made)


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", cpu="64")
    for name in "pqr":
        made.pod(name)
    made.wait(60.0)
    return made


def test_no_more_is_lent_than_is_offered(story: Story) -> None:
    offer(story, 5, 4_000)
    borrow(story, "p", 5)
    borrow(story, "q", 5)
    assert story.broken == []
    assert story.observer.verdicts.judgements["I36"] == 2
    borrow(story, "r", 5, amount=1)
    assert story.broken == ["I36"]


def test_one_alone_may_be_too_much(story: Story) -> None:
    offer(story, 5, 1_000)
    borrow(story, "p", 5)
    assert story.broken == ["I36"]


def test_the_revision_counts_that_is_named_and_a_later_fall_is_none(story: Story) -> None:
    offer(story, 5, 4_000)
    borrow(story, "p", 5)
    offer(story, 6, 1_000)
    assert story.broken == []
    borrow(story, "q", 5)
    assert story.broken == []
    borrow(story, "r", 6, amount=1)
    assert story.broken == ["I36"]


def test_where_nobody_offers_nothing_is_judged(story: Story) -> None:
    borrow(story, "p", 0)
    offer(story, 5, 1_000, uid="another")
    borrow(story, "q", 5)
    assert "I36" not in story.observer.verdicts.judgements
