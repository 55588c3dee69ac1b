"""What is lent of a node against what it offers in the revision that a decision names (I36)."""

from __future__ import annotations

import pytest
from tests.libs.invariants.story import Story

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.grants import ZONE
from berth.contracts.ledger import Allocation, Grant
from berth.contracts.names import BATCH_CPU
from berth.contracts.slo import NodeOffer, Offer, ZoneOffer


def offer(story: Story, revision: int, amount: int, uid: str = "uid-n1", zones: tuple[int, ...] = ()) -> None:
    of_zones = [ZoneOffer(zone=zone, amounts={BATCH_CPU: each}) for zone, each in enumerate(zones)]
    offers = {BATCH_CPU: Offer(amount=amount)}
    said = NodeOffer(node="n1", uid=uid, revision=revision, offers=offers, zones=of_zones)
    story.observer.slo(subjects.named_key("offer", "n1"), encode(said), False)


def borrow(story: Story, name: str, revision: int, amount: int = 2_000, zone: int | None = None, **fields: str) -> None:
    grants = [] if zone is None else [Grant(kind=ZONE, id=str(zone), amounts={BATCH_CPU: amount})]
    allocation = Allocation(amounts={BATCH_CPU: amount}, grants=grants)
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


def test_no_more_of_a_numa_node_is_lent_than_is_offered_there(story: Story) -> None:
    story.put("noderesourcetopologies", "n1", LAYOUT)
    offer(story, 5, 8_000, zones=(2_000, 3_000))
    borrow(story, "p", 5, zone=0)
    borrow(story, "q", 5, zone=1)
    assert story.broken == []
    borrow(story, "r", 5, amount=1_001, zone=1)
    assert story.broken == ["I36"]


LAYOUT = {
    "metadata": {"annotations": {}},
    "topologyPolicies": ["None"],
    "zones": [
        {"name": f"node-{zone}", "type": "Node", "resources": [{"name": BATCH_CPU, "allocatable": "8000"}]}
        for zone in (0, 1)
    ],
}
"""What its NodeResourceTopology shows is more than is offered."""
