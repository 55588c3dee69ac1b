"""The ledger loses its tail: what may still be bound afterwards, and what the observer then calls broken."""

from __future__ import annotations

from tests.libs.invariants.planted import twice_decided
from tests.libs.invariants.stage import gang, stage

from berth.contracts.ledger import GangRef, PlanStatus


def test_overlapping_decisions_after_a_loss_are_no_harm_until_they_are_bound() -> None:
    story = stage()
    story.place("a", minors={0: 100})
    story.lose(3)
    story.place("b", minors={0: 100})
    story.place("a", minors={0: 100})
    assert story.broken == []
    story.bind("b")
    assert story.broken == []
    story.bind("a")
    assert story.broken == ["I1"]


def test_after_the_next_epoch_everything_counts_again() -> None:
    story = stage()
    story.place("a", minors={0: 100})
    story.lose(3)
    story.epoch(2)
    twice_decided(story)
    assert story.broken == ["I1"]


def test_a_plan_lost_before_anybody_acted_on_it_is_never_bound() -> None:
    story = stage()
    story.place("a")
    decision = story.decisions["a"]
    story.lose(1)
    story.land("a", decision)
    assert story.broken == ["I5"]


def test_a_bind_under_way_during_a_loss_may_land() -> None:
    story = stage()
    plan = story.place("a")
    story.lease(plan)
    story.lose(3)
    story.land("a", story.decisions["a"])
    assert story.broken == []


def test_a_gang_that_the_lease_names_just_behind_its_loss_may_begin() -> None:
    story = stage()
    gang(story, 2)
    plan = story.gang("g1", "g2")
    story.lose(len(story.stored))
    story.lease(plan)
    story.land("g1", story.decisions["g1"])
    story.wait(100)
    assert story.broken == []


def test_an_undone_abort_that_is_committed_after_all() -> None:
    """The ledger loses `aborted`; half of the plan has been replaced; half a gang begins."""
    story = stage()
    gang(story, 2)
    ref = GangRef(name="default/g", size=2)
    plan = story.commit(*(story.decision(name, gang=ref) for name in ("g1", "g2")), status=PlanStatus.OPEN)
    first = story.decisions["g1"]
    story.entry(plan, PlanStatus.ABORTED)
    story.lose(1)
    story.place("g2", "n2")
    story.entry(plan, PlanStatus.COMMITTED)
    story.bind("g1", first)
    assert story.broken == ["I3"]
