"""An observer that sees every event: silent on good histories, and each planted fault is named at its moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.invariants.story import Good, Story

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch, GangRef, PlanStatus
from berth.contracts.state import Node
from berth.invariants import PROMISES, NodeHold
from berth.invariants.log import LogEntry, compacted, fold, folded_otherwise, state_hash


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 30))
def test_a_good_history_breaks_nothing(seed: int) -> None:
    story = Good(seed).run(150)
    assert [str(each) for each in story.observer.violations] == []
    assert story.finish() == []


def test_the_report_names_every_promise() -> None:
    report = Good(1).run(50).observer.finish(quiet=False)
    assert [result.name for result in report.results] == list(PROMISES)
    assert len({promise.title for promise in PROMISES.values()}) == len(PROMISES)


# --- planted faults: what is done to a story, and which promise it breaks ---------------------------------------------


def twice_decided(story: Story) -> None:
    story.place("a", minors={0: 60})
    story.place("b", minors={0: 60})


def freed_while_terminating(story: Story) -> None:
    story.place("a", minors={0: 100})
    story.bind("a")
    story.change("pods", "a", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    story.place("b", minors={0: 100})


def overfull_node(story: Story) -> None:
    story.pod("large", cpu="8")
    story.place("a")
    story.place("large")


def too_many_pods(story: Story) -> None:
    story.node(pods="1")
    story.wait(100)
    story.place("a")
    story.place("b")


def quota_above_max(story: Story) -> None:
    story.place("a", quota="/blue")
    story.pod("large", cpu="4")
    story.place("large", quota="/blue")


def ancestor_above_max(story: Story) -> None:
    story.pod("x", cpu="3")
    story.pod("y", cpu="3")
    story.place("x", quota="/blue")
    story.place("y", quota="/red")


def charged_to_nobody(story: Story) -> None:
    story.wait(11)
    story.pod("p", **{names.LABEL_QUOTA_NAME: "blue"})
    story.place("p")


def firm_above_min(story: Story) -> None:
    story.place("a", quota="/blue", non_preemptible=True)
    story.place("b", quota="/blue", non_preemptible=True)


def half_decided_gang(story: Story) -> None:
    gang(story, 3)
    ref = GangRef(name="default/g", size=3)
    story.commit(*(story.decision(name, gang=ref) for name in ("g1", "g2")))
    story.bind("g1")


def gang_left_half_bound(story: Story) -> None:
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.wait(31)


def gang_begun_after_a_member_left(story: Story) -> None:
    gang(story, 2)
    story.gang("g1", "g2")
    story.delete("pods", "g2")
    story.wait(11)
    story.bind("g1")


def withdrawn_then_bound(story: Story) -> None:
    story.place("a")
    decision = story.decisions["a"]
    story.withdraw("a")
    story.bind("a", decision)


def bound_then_withdrawn(story: Story) -> None:
    story.place("a")
    story.bind("a")
    story.withdraw("a")


def without_a_decision(story: Story) -> None:
    story.bind("a", story.decision("a"), plan="made-up")


def without_a_plan(story: Story) -> None:
    story.change("pods", "a", {"spec": {"nodeName": "n1"}})


def elsewhere(story: Story) -> None:
    story.place("a")
    story.bind("a", node="n2")


def other_devices(story: Story) -> None:
    story.place("a", minors={0: 50})
    story.bind("a", allocation=story.decision("a", minors={1: 50}).allocation)


def moved(story: Story) -> None:
    story.place("a")
    story.bind("a")
    story.change("pods", "a", {"spec": {"nodeName": "n2"}})


def successor_of_the_same_name(story: Story) -> None:
    story.place("a")
    decision = story.decisions["a"]
    story.delete("pods", "a")
    story.pod("a", uid="uid-of-the-successor")
    story.bind("a", decision)


def uncommitted(story: Story) -> None:
    story.commit(story.decision("a"), status=None)
    story.bind("a")


def dropped_while_bound(story: Story) -> None:
    story.place("a", minors={0: 100})
    story.bind("a")
    story.tidy("a")


def dropped_while_open(story: Story) -> None:
    story.place("a")
    story.tidy("a")


def replaced_while_open(story: Story) -> None:
    story.place("a")
    story.place("a", "n2")


def a_strangers_use(story: Story) -> None:
    story.reservation()
    story.place("a", reservation="r", reservation_uid="uid-r")


def use_on_another_node(story: Story) -> None:
    story.reservation()
    story.pod("owner", app="db")
    story.place("owner", "n2", reservation="r", reservation_uid="uid-r")


def two_users_of_one(story: Story) -> None:
    story.reservation()
    for name in ("one", "two"):
        story.pod(name, app="db")
        story.place(name, reservation="r", reservation_uid="uid-r")


def reserved_room_given_away(story: Story) -> None:
    story.reservation(cpu="4")
    story.pod("large", cpu="5")
    story.place("large")


def an_old_epochs_decision(story: Story) -> None:
    story.place("a")
    decision = story.decisions["a"]
    story.write(subjects.EPOCH_KEY, Epoch(epoch=2))
    story.current = 2
    story.bind("a", decision)


def an_epoch_that_goes_back(story: Story) -> None:
    story.epoch(2)
    story.write(subjects.EPOCH_KEY, Epoch(epoch=1))


def an_aborted_plan_committed(story: Story) -> None:
    plan = story.commit(story.decision("a"), status=PlanStatus.ABORTED)
    story.entry(plan, PlanStatus.COMMITTED)


def a_version_that_goes_back(story: Story) -> None:
    story.observer.state("node.n1", encode(Node(name="n1", uid="u", version=9)), False)
    story.observer.state("node.n1", encode(Node(name="n1", uid="u", version=8)), False)


def a_version_behind_its_deletion(story: Story) -> None:
    story.observer.state("node.n1", b"9", True)
    story.observer.state("node.n1", encode(Node(name="n1", uid="u", version=8)), False)


def a_lease_that_goes_back(story: Story) -> None:
    story.epoch(2)
    story.lease("")
    story.current = 1
    story.lease("")


def a_message_that_nobody_can_read(story: Story) -> None:
    story.observer.ledger(subjects.decision_key(1, "default", "a"), b"{", False, 99)


def an_object_that_nobody_can_read(story: Story) -> None:
    story.observer.api("pods", {"metadata": {"name": "x", "uid": "u"}, "spec": {"containers": 3}})


def gang(story: Story, size: int) -> None:
    for number in range(1, size + 1):
        story.pod(f"g{number}", gang="g", minimum=size)


FAULTS: list[tuple[str, Callable[[Story], None]]] = [
    ("I0", a_message_that_nobody_can_read),
    ("I0", an_object_that_nobody_can_read),
    ("I1", twice_decided),
    ("I1", freed_while_terminating),
    ("I1b", overfull_node),
    ("I1b", too_many_pods),
    ("I2", quota_above_max),
    ("I2", ancestor_above_max),
    ("I2", charged_to_nobody),
    ("I2b", firm_above_min),
    ("I3", half_decided_gang),
    ("I3", gang_left_half_bound),
    ("I3", gang_begun_after_a_member_left),
    ("I4", withdrawn_then_bound),
    ("I4", bound_then_withdrawn),
    ("I5", without_a_decision),
    ("I5", without_a_plan),
    ("I5", elsewhere),
    ("I5", other_devices),
    ("I5", moved),
    ("I5", successor_of_the_same_name),
    ("I5", uncommitted),
    ("I6", dropped_while_bound),
    ("I6", dropped_while_open),
    ("I6", replaced_while_open),
    ("I10", a_strangers_use),
    ("I10", use_on_another_node),
    ("I10", two_users_of_one),
    ("I10b", reserved_room_given_away),
    ("I12", an_old_epochs_decision),
    ("I12", an_epoch_that_goes_back),
    ("I12", an_aborted_plan_committed),
    ("I12", a_version_that_goes_back),
    ("I12", a_version_behind_its_deletion),
    ("I12", a_lease_that_goes_back),
]


def stage() -> Story:
    story = Story()
    story.node("n1")
    story.node("n2")
    story.quota("company", "5")
    story.quota("blue", "4", "1", parent="company")
    story.quota("red", "4", parent="company")
    story.pod("a")
    story.pod("b")
    return story


@pytest.mark.parametrize(("promise", "fault"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_planted_fault_is_named(promise: str, fault: Callable[[Story], None]) -> None:
    story = stage()
    fault(story)
    assert story.broken == [promise], [str(each) for each in story.observer.violations]
    assert promise in story.finish()


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(FAULTS), st.integers(0, 1 << 30))
def test_a_fault_is_found_in_the_midst_of_others_work(planted: tuple[str, Callable[[Story], None]], seed: int) -> None:
    promise, fault = planted
    story = stage()
    good = Good(seed)
    good.story, good.cpu, good.free = story, {"m1": 8}, {("m1", 0): 100, ("m1", 1): 100}
    good.left = {"company": 0, "blue": 0, "red": 0}
    story.node("m1")
    good.run(60)
    if "epoch" in fault.__name__ or story.current > 1:
        return
    for name in ("a", "b"):
        story.objects["pods"].pop(name, None)
        story.pod(name, uid=f"uid-{name}-again")
    fault(story)
    assert promise in story.broken


def test_every_promise_that_is_watched_has_a_fault() -> None:
    elsewhere = {"I1c", "I1d", "I7", "I8"}  # node reports, replays and rebuilds have tests of their own
    assert {promise for promise, _ in FAULTS} == set(PROMISES) - elsewhere


# --- what is not held against anybody ---------------------------------------------------------------------------------


def test_a_limit_lowered_a_moment_ago_is_nobodys_fault() -> None:
    story = stage()
    story.node("n1", cpu="0")
    story.quota("blue", "0", parent="company")
    story.place("a", quota="/blue")
    assert story.broken == []
    story.wait(11)
    story.place("b", quota="/blue")
    assert story.broken == ["I1b", "I2"]


def test_a_strangers_bind_counts_once_everybody_can_know() -> None:
    story = stage()
    story.change("pods", "b", {"spec": {"schedulerName": "default-scheduler"}})
    for name in ("b", "c"):
        story.pod(name, uid=f"uid-foreign-{name}")
        story.objects["pods"][name]["spec"]["schedulerName"] = "default-scheduler"
        note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
        change = {
            "metadata": {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: note}},
            "spec": {"nodeName": "n1", "schedulerName": "default-scheduler"},
        }
        story.change("pods", name, change)
    story.place("a", minors={0: 100})
    assert story.broken == []
    story.wait(11)
    story.pod("d")
    story.place("d", minors={0: 10})
    assert story.broken == ["I1"]


def test_a_gang_that_lost_a_member_may_stay_half() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.bind("g2")
    story.delete("pods", "g2")
    story.wait(100)
    assert story.broken == []


def test_a_gang_has_its_time_to_recover_after_the_last_fault() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.wait(10)
    story.observer.trouble(20)
    story.wait(10)
    story.observer.trouble(15)  # five seconds longer
    story.wait(34)
    assert story.broken == []
    story.wait(2)
    assert story.broken == ["I3"]


def test_a_gang_whose_member_leaves_while_it_is_bound() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.delete("pods", "g2")
    story.bind("g1")
    story.wait(5)
    assert story.broken == []


def test_a_gang_whose_member_is_withdrawn_while_it_is_bound() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.withdraw("g2")
    story.wait(100)
    assert story.broken == []


# --- losses -----------------------------------------------------------------------------------------------------------


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


# --- node reports, replays --------------------------------------------------------------------------------------------


def test_what_nodes_report_is_compared_at_the_end() -> None:
    story = stage()
    story.place("a", minors={0: 100})
    story.bind("a")
    as_given = [NodeHold("n1", "gpu", 0, "uid-a")]
    assert [each.name for each in story.observer.finish(quiet=False, holds=as_given).broken] == []
    twice = [*as_given, NodeHold("n1", "gpu", 0, "uid-other", 1)]
    assert [each.name for each in story.observer.finish(quiet=False, holds=twice).broken] == ["I1c"]
    other = [NodeHold("n1", "gpu", 1, "uid-a")]
    assert [each.name for each in story.observer.finish(quiet=False, holds=other).broken] == ["I1d"]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1 << 30))
def test_a_log_folds_to_one_state(seed: int) -> None:
    observer = Good(seed).run(80).observer
    assert observer.log is not None
    assert list(folded_otherwise(observer.log, observer.view)) == []
    assert state_hash(fold(compacted(observer.log))) == observer.hash()


def test_a_log_that_was_followed_otherwise_is_named() -> None:
    story = Good(3).run(80)
    observer = story.observer
    assert observer.log is not None
    observer.log.append(LogEntry(10_000, subjects.EPOCH_KEY, encode(Epoch(epoch=99))))
    assert "I7" in story.finish()


def test_violations_are_told_once_and_are_bounded() -> None:
    story = stage()
    for _ in range(3):
        story.place("a", minors={0: 60})
        story.place("b", minors={0: 60})
    assert [each.promise for each in story.observer.violations].count("I1") == 2  # two resources of one minor
    for number in range(1200):
        story.observer.verdicts.add("I5", f"subject {number}", "x")
    assert len(story.observer.violations) == 1000
    assert story.observer.verdicts.count > 1000
