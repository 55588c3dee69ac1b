"""The ledger loses its tail: what may still be bound afterwards, and what the observer then calls broken."""

from __future__ import annotations

from tests.libs.invariants.planted import twice_decided
from tests.libs.invariants.stage import gang, stage
from tests.libs.invariants.story import Story

from berth.contracts import subjects
from berth.contracts.ledger import AccountStamp, GangRef, PlanStatus


def go_on(story: Story, messages: int) -> None:
    """Others write, so that sequences are new again."""
    for number in range(messages):
        story.write(subjects.account_key(story.current, f"other-{number}"), AccountStamp(plan="other"))


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


def test_a_restart_that_loses_nothing_casts_no_doubt() -> None:
    story = stage()
    story.place("a", minors={0: 60})
    story.lose(0)
    story.place("b", minors={0: 60})
    assert story.broken == ["I1"]


def test_what_is_decided_under_new_sequences_counts_in_the_same_epoch() -> None:
    story = stage()
    story.place("a", minors={1: 100})
    story.lose(3)
    go_on(story, 3)
    twice_decided(story)
    assert story.broken == ["I1"]


def test_what_is_decided_under_sequences_used_before_is_in_doubt_until_it_is_decided_anew() -> None:
    story = stage()
    story.place("a", minors={1: 100})
    story.lose(3)
    twice_decided(story)
    assert story.broken == []
    story.withdraw("a")
    story.place("a", minors={0: 60})
    story.withdraw("b")
    story.place("b", minors={0: 60})
    assert story.broken == ["I1"]


def test_where_only_a_deletion_was_lost_its_sequence_comes_again() -> None:
    story = stage()
    story.place("a", minors={1: 100})
    story.withdraw("a")
    story.tidy("a")
    key = story.stored[-1][0]
    story.stored = [each for each in story.stored if each[0] != key or each[2]]  # a marker stands for what it deletes
    story.lose(1)
    twice_decided(story)
    assert story.broken == []


def test_a_decision_whose_plan_lost_its_last_word_is_in_doubt() -> None:
    story = stage()
    story.place("a", minors={0: 100})
    story.lose(1)
    go_on(story, 1)
    story.place("b", minors={0: 100})
    assert story.broken == []
    story.pod("c")
    story.place("c", minors={0: 100})
    assert story.broken == ["I1"]


def test_a_sound_decision_leaves_only_when_it_is_settled_though_something_was_lost() -> None:
    story = stage()
    story.place("a")
    story.place("b")
    story.lose(3)
    story.tidy("a")
    assert story.broken == ["I6"]


def test_where_ledger_and_lease_disagree_everything_decided_is_in_doubt_until_the_epoch() -> None:
    story = stage()
    story.lease(story.place("a"))
    story.lose(3)
    go_on(story, 3)
    twice_decided(story)
    story.wait(20)
    story.epoch(2)
    story.wait(100)
    assert story.broken == []
    twice_decided(story)
    assert story.broken == ["I1"]


def test_where_ledger_and_lease_disagree_somebody_has_to_raise_the_epoch_in_time() -> None:
    story = stage()
    story.lease(story.place("a"))
    story.lose(3)
    story.wait(1)
    story.observer.trouble(20)
    story.wait(50)
    assert story.broken == []
    story.wait(2)
    assert story.broken == ["I12"]


def test_an_epoch_that_is_lost_has_to_be_raised_anew() -> None:
    story = stage()
    story.lose(len(story.stored))
    story.wait(1)
    story.wait(31)
    assert story.broken == ["I12"]


def test_a_gang_goes_on_when_its_plan_survives_the_loss() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.place("a")
    story.lose(3)
    story.wait(31)
    assert story.broken == ["I3"]


def test_a_gang_is_caught_by_a_loss_until_it_is_whole() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    second = story.decisions["g2"]
    story.lose(len(story.stored))
    assert story.observer.gangs.caught == story.observer.gangs.excused == {"default/g"}
    story.land("g2", second)
    assert story.observer.gangs.caught == story.observer.gangs.excused == set()


def test_a_gang_that_was_whole_before_a_loss_is_not_caught_by_it() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.bind("g2")
    story.lose(len(story.stored))
    assert story.observer.gangs.caught == set()


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
    story.wait(20)
    story.epoch(2)
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


def test_a_plan_that_the_lease_named_before_may_be_forgotten() -> None:
    """Its entry is deleted once the Lease names another one, also where that one's pods are gone by then."""
    story = stage()
    first = story.place("a")
    story.lease(first)
    second = story.place("b")
    story.delete("pods", "b")
    story.tidy("b")
    story.lease(second)
    story.delete("pods", "a")
    story.tidy("a")
    story.write(subjects.plan_key(1, first), None, deleted=True)
    story.pod("c")
    story.place("c")
    story.lose(3)
    story.wait(1)
    story.wait(100)
    assert story.broken == []


def test_a_lost_plan_that_a_wave_may_have_begun_beside_a_newer_one_is_in_doubt_alone() -> None:
    story = stage()
    story.place("a", minors={0: 100})
    lost = story.decisions["a"]
    story.lose(3)
    go_on(story, 3)
    plan = story.place("b", minors={0: 100})
    story.lease(plan)
    story.land("a", lost)
    assert story.broken == []
    story.wait(1)
    story.wait(100)
    story.pod("c")
    story.place("c", minors={0: 100})
    assert story.broken == ["I1"]


def test_an_epoch_that_is_lost_while_it_is_raised_is_back_when_it_is_written_again() -> None:
    story = stage()
    story.lose(len(story.stored))
    story.epoch(1)
    go_on(story, 3)
    story.wait(1)
    story.wait(100)
    assert story.broken == []
    twice_decided(story)
    assert story.broken == ["I1"]
