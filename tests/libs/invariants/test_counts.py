"""An observer counts how often each law was applied, and how often an excuse kept it from finding something."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.libs.invariants.stage import gang, stage, stranger
from tests.libs.invariants.story import Story

from berth.contracts import names, subjects
from berth.contracts.ledger import GangRef, PlanStatus
from berth.invariants import Counts, Excuse
from berth.invariants.observer.state_fence import StateFence
from berth.invariants.observer.verdicts import Verdicts


def places(story: Story) -> None:
    story.place("a", minors={0: 50}, quota="/blue")


def binds(story: Story) -> None:
    places(story)
    story.bind("a")


def non_preemptible(story: Story) -> None:
    story.place("a", quota="/blue", non_preemptible=True)


def binds_a_gang(story: Story) -> None:
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")


def tidies(story: Story) -> None:
    places(story)
    story.delete("pods", "a")
    story.tidy("a")


def draws_on_a_reservation(story: Story) -> None:
    story.reservation("r")
    story.place("a", reservation="r", reservation_uid="uid-r")


def takes_beside_a_reservation(story: Story) -> None:
    story.reservation("r")
    story.place("a")


def finishes(story: Story) -> None:
    story.finish()


@pytest.mark.parametrize(
    ("law", "act"),
    [
        ("I0", places),
        ("I1", places),
        ("I1b", places),
        ("I1e", places),
        ("I1f", places),
        ("I2", places),
        ("I2b", non_preemptible),
        ("I3", binds_a_gang),
        ("I4", binds),
        ("I5", binds),
        ("I6", tidies),
        ("I7", finishes),
        ("I10", draws_on_a_reservation),
        ("I10b", takes_beside_a_reservation),
        ("I12", binds),
    ],
)
def test_a_law_that_is_applied_counts(law: str, act: Callable[[Story], None]) -> None:
    story = stage()
    before = story.observer.verdicts.judgements[law]
    act(story)
    assert story.observer.verdicts.judgements[law] > before
    assert not story.observer.verdicts.excuses


def after_a_loss(story: Story) -> None:
    story.place("a", minors={0: 100})
    story.lease("plan-1")
    story.lose(1)  # the entry of the plan that the Lease names
    story.place("b", minors={0: 100})


def ends_after_a_loss(story: Story) -> None:
    story.place("a")
    story.lease("plan-1")
    story.lose(1)
    story.tidy("a")


def on_a_node_that_shrank(story: Story) -> None:
    story.change("nodes", "n1", {"status": {"allocatable": {"cpu": "0"}}})
    story.place("a")


def in_a_group_that_shrank(story: Story) -> None:
    story.quota("blue", "0", parent="company")
    story.place("a", quota="/blue")


def non_preemptible_in_a_group_that_shrank(story: Story) -> None:
    story.quota("blue", "4", "0", parent="company")
    story.place("a", quota="/blue", non_preemptible=True)


def on_a_card_that_broke(story: Story) -> None:
    story.health("n1", False, True)
    story.place("a", minors={0: 100})


def on_a_node_that_is_gone(story: Story) -> None:
    story.delete("nodes", "n1")
    story.place("a")


def beside_a_stranger(story: Story) -> None:
    stranger(story, "8")
    story.place("a")


def for_a_pod_that_changed(story: Story) -> None:
    decision = story.decision("a")
    story.change("pods", "a", {"metadata": {"labels": {names.LABEL_QUOTA_NAME: "blue"}}})
    story.commit(decision)


def member_deleted(story: Story) -> None:
    binds_a_gang(story)
    story.delete("pods", "g2")


def member_withdrawn(story: Story) -> None:
    binds_a_gang(story)
    story.delete("nodes", "n1")
    story.withdraw("g2")


def member_withdrawn_by_an_epoch(story: Story) -> None:
    binds_a_gang(story)
    story.current = 2
    story.lease("")
    story.withdraw("g2")


def member_unshown(story: Story) -> None:
    gang(story, 2)
    story.observer.state("pod.default.g2", b'{"uid": "uid-g2"}', False)
    one, two = (story.decision(name, gang=GangRef(name="default/g", size=2)) for name in ("g1", "g2"))
    story.delete("pods", "g2")
    story.wait(20)
    story.commit(one, two)
    story.bind("g1")


def more_asked(story: Story) -> None:
    story.put("podgroups", "g", {"spec": {"minMember": 1}}, "default")
    story.pod("g1", **{names.LABEL_POD_GROUP: "g"})
    story.gang("g1")
    story.bind("g1")
    story.put("podgroups", "g", {"spec": {"minMember": 2}}, "default")


def caught(story: Story) -> None:
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.lose(1)


def recovers_late(story: Story) -> None:
    binds_a_gang(story)
    story.observer.trouble(60)
    story.wait(50)
    story.bind("g2")


def deleted_once_the_lease_names_a_later_epoch(story: Story) -> None:
    story.place("a")
    story.lease("", epoch=2)
    story.tidy("a")


def owners_changed(story: Story) -> None:
    story.reservation("r", app="db")
    story.reservation("r", app="web")
    story.place("a", reservation="r", reservation_uid="uid-r")


@pytest.mark.parametrize(
    ("law", "excuse", "act"),
    [
        ("I1", Excuse.LOSS, after_a_loss),
        ("I6", Excuse.LOSS, ends_after_a_loss),
        ("I6", Excuse.EPOCH_OVER, deleted_once_the_lease_names_a_later_epoch),
        ("I1b", Excuse.UNSEEN, on_a_node_that_shrank),
        ("I1b", Excuse.STRANGER, beside_a_stranger),
        ("I2", Excuse.UNSEEN, in_a_group_that_shrank),
        ("I2", Excuse.OLDER_POD, for_a_pod_that_changed),
        ("I2b", Excuse.UNSEEN, non_preemptible_in_a_group_that_shrank),
        ("I1e", Excuse.UNSEEN, on_a_card_that_broke),
        ("I1f", Excuse.UNSEEN, on_a_node_that_is_gone),
        ("I3", Excuse.MEMBER_GONE, member_deleted),
        ("I3", Excuse.EPOCH, member_withdrawn_by_an_epoch),
        ("I3", Excuse.UNFIT, member_withdrawn),
        ("I3", Excuse.MEMBER_UNSHOWN, member_unshown),
        ("I3", Excuse.MORE_ASKED, more_asked),
        ("I3", Excuse.CAUGHT, caught),
        ("I3", Excuse.RECOVERY, recovers_late),
        ("I10", Excuse.UNSEEN, owners_changed),
    ],
)
def test_an_excuse_that_was_needed_counts(law: str, excuse: Excuse, act: Callable[[Story], None]) -> None:
    story = stage()
    story.wait(100)
    act(story)
    assert story.broken == []
    assert story.observer.verdicts.excuses[law, excuse] >= 1
    assert set(story.observer.verdicts.excuses) == {(law, excuse)}


def test_a_version_that_goes_back_because_state_was_lost_is_an_excuse_of_its_own() -> None:
    verdicts = Verdicts()
    fence = StateFence(verdicts)
    fence.see("pod.a.b", b'{"version": 7}', False)
    fence.lost()
    fence.see("pod.a.b", b'{"version": 6}', False)
    assert (verdicts.found, verdicts.judgements["I12"], verdicts.excuses["I12", Excuse.STATE_LOST]) == ([], 1, 1)
    fence.see("pod.a.b", b'{"version": 7}', False)
    assert (verdicts.judgements["I12"], sum(verdicts.excuses.values())) == (2, 1)


def test_a_plan_that_was_given_up_is_settled_and_needs_no_excuse() -> None:
    story = stage()
    story.commit(story.decision("a"), status=PlanStatus.ABORTED)
    story.write(subjects.decision_key(1, "default", "a"), None, deleted=True)
    assert story.observer.verdicts.judgements["I6"] == 1


def test_counts_can_be_taken_together() -> None:
    one, other = Counts(), Counts()
    one.judged("L1", 2)
    other.judged("L1")
    other.excused("L1", Excuse.LOSS, 3)
    one.take(other)
    assert (one.judgements["L1"], one.excuses["L1", Excuse.LOSS]) == (3, 3)
