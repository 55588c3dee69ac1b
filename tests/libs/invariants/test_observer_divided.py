"""What is offered to Kubernetes and what another framework has of a node, against what the node lends (I40)."""

from __future__ import annotations

from tests.libs.invariants.story import Story

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.names import BATCH_CPU
from berth.contracts.slo import NodeOffer, Offer

KEY = subjects.named_key("offer", "n1")
LAW = "I40"


def offer(story: Story, amount: int, origin: int = 10_000, taken: int = 0) -> None:
    offers, charged = {BATCH_CPU: Offer(amount=amount)}, {BATCH_CPU: taken}
    said = NodeOffer(node="n1", origin={BATCH_CPU: origin}, offers=offers, taken=charged)
    story.observer.slo(KEY, encode(said), False)


def has(story: Story, amount: int, *, registers: bool = False) -> None:
    story.observer.divided.has("n1", {BATCH_CPU: amount}, registers=registers)


def excused(story: Story) -> dict[str, int]:
    return {excuse: times for (law, excuse), times in story.observer.verdicts.excuses.items() if law == LAW}


def test_one_grows_where_the_other_has_shrunk() -> None:
    story = Story()
    offer(story, 10_000)
    offer(story, 4_000)
    has(story, 6_000)
    has(story, 3_000)
    offer(story, 7_000)
    assert story.broken == []
    assert story.observer.verdicts.judgements[LAW] == 6
    assert list(story.observer.divided.over()) == []


def test_the_framework_grows_too_soon() -> None:
    story = Story()
    offer(story, 10_000)
    has(story, 6_000)
    assert story.broken == [LAW]
    assert len(list(story.observer.divided.over())) == 1


def test_kubernetes_grows_too_soon() -> None:
    story = Story()
    offer(story, 4_000)
    has(story, 6_000)
    offer(story, 4_001)
    assert story.broken == [LAW]


def test_a_node_that_comes_to_lend_less_leaves_both_as_they_are() -> None:
    story = Story()
    offer(story, 4_000)
    has(story, 6_000)
    offer(story, 1_000, origin=5_000)
    has(story, 5_000)
    assert story.broken == []
    assert excused(story) == {"lent less": 2}
    has(story, 5_500)
    assert story.broken == [LAW]


def test_what_it_is_charged_with_may_be_granted_after_the_node_has_come_to_lend_less() -> None:
    story = Story()
    offer(story, 2_000, taken=8_000)
    offer(story, 0, origin=7_000, taken=8_000)
    has(story, 8_000)
    assert story.broken == []
    assert excused(story) == {"lent less": 1}
    has(story, 8_001)
    assert story.broken == [LAW]


def test_who_registers_has_what_its_configuration_says() -> None:
    story = Story()
    offer(story, 10_000)
    has(story, 1_000, registers=True)
    assert story.broken == []
    assert excused(story) == {"registered": 1}


def test_kubernetes_may_grow_while_one_that_has_registered_is_not_charged() -> None:
    story = Story()
    offer(story, 8_000)
    has(story, 1_000, registers=True)
    offer(story, 10_000)
    assert story.broken == []
    assert excused(story) == {"registered": 1}
    offer(story, 9_000, taken=1_000)
    has(story, 1_000)
    offer(story, 10_000, taken=1_000)
    assert story.broken == [LAW]


def test_where_nobody_offers_nothing_is_judged() -> None:
    story = Story()
    has(story, 1_000)
    offer(story, 10_000)
    story.observer.slo(KEY, b"", True)
    story.observer.slo(KEY, b"{", False)
    has(story, 2_000)
    assert story.observer.verdicts.judgements[LAW] == 2
