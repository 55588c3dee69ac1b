"""The fold of LEDGER: one epoch at a time, with the sequence that the next write of each key has to expect."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from berth.contracts import subjects
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import AccountStamp, Decision, Epoch, Plan, PlanStatus
from berth.transaction.ledger_view import NOTHING, Change, LedgerView

NAME = ("default", "train.0")
KEY = subjects.decision_key(1, *NAME)


def decision(plan: str = "plan-1", **fields: Any) -> Decision:
    return Decision(
        **{
            "plan": plan,
            "namespace": NAME[0],
            "name": NAME[1],
            "uid": "u",
            "attempt": 0,
            "node": "n",
            "pod_version": 1,
            "basis": 1,
            **fields,
        }
    )


@pytest.fixture
def view() -> LedgerView:
    made = LedgerView()
    assert made.apply(subjects.EPOCH_KEY, encode(Epoch(epoch=1)), False, 1) == Change(epoch=True)
    return made


def put(view: LedgerView, key: str, message: Message, sequence: int) -> Change:
    return view.apply(key, encode(message), False, sequence)


def test_a_decision_is_found_by_name_and_by_plan(view: LedgerView) -> None:
    assert put(view, KEY, decision(), 2) == Change(name=NAME)
    assert view.decisions[NAME].decision == decision()
    assert view.members == {"plan-1": {NAME}}
    assert (view.expected(KEY), view.sequence) == (2, 2)


def test_a_decision_replaced_leaves_its_plan(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    put(view, KEY, decision("plan-2"), 3)
    assert view.members == {"plan-2": {NAME}}
    assert view.expected(KEY) == 3


def test_a_marker_removes_the_decision_and_is_expected_next(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    assert view.apply(KEY, b"", True, 5) == Change(name=NAME)
    assert not view.decisions
    assert not view.members
    assert view.expected(KEY) == 5


def test_an_unknown_key_expects_zero_as_does_one_that_the_leader_lacks(view: LedgerView) -> None:
    assert view.expected(KEY) == 0
    view.apply(KEY, b"", True, 40)
    view.learn_absent(KEY, 40)  # the marker's time has passed
    assert view.expected(KEY) == 0


def test_what_is_read_while_the_leader_is_asked_stays(view: LedgerView) -> None:
    view.apply(KEY, b"", True, 40)
    put(view, KEY, decision(), 41)
    view.learn_absent(KEY, 40)
    assert view.expected(KEY) == 41


def test_a_marker_that_was_forgotten_too_early_is_learned(view: LedgerView) -> None:
    view.apply(KEY, b"", True, 40)
    view.forget_markers(0.0, 0.0)
    assert view.expected(KEY) == 0
    view.learn_marker(KEY, 40)
    assert view.expected(KEY) == 40
    view.forget_markers(0.0, 0.0)
    assert view.expected(KEY) == 0, "what was learned is forgotten in its time, too"


def test_a_marker_that_was_not_read_yet_is_not_learned(view: LedgerView) -> None:
    """A decision may lie before it, and an account that its solver charged (R2)."""
    put(view, KEY, decision(), 39)
    view.learn_marker(subjects.account_key(1, "node.n"), 40)
    assert view.expected(subjects.account_key(1, "node.n")) == 0
    view.learn_marker(KEY, 39)
    view.learn_marker(KEY, 38)
    assert view.expected(KEY) == 39, "what was read stays"


@pytest.mark.parametrize("key", [KEY, subjects.decision_key(2, *NAME)])
def test_a_marker_from_before_the_epoch_was_known_is_not_learned(view: LedgerView, key: str) -> None:
    """Keys are read once their epoch is."""
    put(view, subjects.EPOCH_KEY, Epoch(epoch=2), 9)
    view.learn_marker(key, 8)
    assert view.expected(key) == 0


def test_markers_are_forgotten_in_their_time(view: LedgerView) -> None:
    stamp, kept = subjects.account_key(1, "node.n"), subjects.account_key(1, "node.m")
    put(view, kept, AccountStamp(plan="p"), 2)
    view.forget_markers(100.0, 60.0)
    view.apply(KEY, b"", True, 3)
    view.forget_markers(130.0, 60.0)
    view.apply(stamp, b"", True, 4)
    view.forget_markers(189.0, 60.0)
    assert (view.expected(KEY), view.expected(stamp)) == (3, 4)
    view.forget_markers(190.0, 60.0)
    assert (view.expected(KEY), view.expected(stamp)) == (0, 4), "its time counts from the look that found it first"
    view.forget_markers(249.0, 60.0)
    assert (view.expected(stamp), view.expected(kept)) == (0, 2)


def test_a_marker_that_was_replaced_is_not_what_is_forgotten(view: LedgerView) -> None:
    view.apply(KEY, b"", True, 2)
    view.forget_markers(0.0, 60.0)
    put(view, KEY, decision(), 3)
    view.forget_markers(60.0, 60.0)
    assert view.expected(KEY) == 3
    view.apply(KEY, b"", True, 4)
    view.forget_markers(61.0, 60.0)
    assert view.expected(KEY) == 4


@pytest.mark.parametrize("key", [KEY, "e1.unknown.x", subjects.account_key(1, "node.n"), subjects.plan_key(1, "p")])
def test_nothing_is_left_of_a_key_that_is_gone(view: LedgerView, key: str) -> None:
    def known() -> int:
        return len(view._sequences) + len(view._markers._new) + len(view._markers._seen)

    before = known()
    for number in range(10):
        with contextlib.suppress(InvalidMessage):
            view.apply(f"{key}{number}", b"", True, 2 + number)
        view.learn_absent(f"{key}absent{number}", 0)
    view.forget_markers(1.0, 60.0)
    view.forget_markers(61.0, 60.0)
    assert known() == before


def test_an_epoch_and_a_reset_forget_the_markers(view: LedgerView) -> None:
    view.apply(KEY, b"", True, 2)
    put(view, subjects.EPOCH_KEY, Epoch(epoch=2), 3)
    assert view._markers.expired(0.0, 0.0) == []
    view.apply(subjects.decision_key(2, *NAME), b"", True, 4)
    view.reset()
    assert view._markers.expired(0.0, 0.0) == []
    view.learn_marker(subjects.decision_key(0, *NAME), 4)
    assert view.expected(subjects.decision_key(0, *NAME)) == 0, "another stream"


def test_plans_go_from_open_to_committed(view: LedgerView) -> None:
    key = subjects.plan_key(1, "plan-1")
    assert view.plan_status("plan-1") is None
    for sequence, status in enumerate((PlanStatus.OPEN, PlanStatus.COMMITTED), 2):
        assert put(view, key, Plan(id="plan-1", status=status), sequence) == Change(plan="plan-1")
        assert view.plan_status("plan-1") is status
    view.apply(key, b"", True, 9)
    assert view.plan_status("plan-1") is None
    assert view.expected(key) == 0, "its id is never used again"


def test_stamps_are_kept_by_account(view: LedgerView) -> None:
    key = subjects.account_key(1, subjects.quota_account("", "team.a"))
    assert put(view, key, AccountStamp(plan="plan-1", revision=7), 3) == NOTHING
    assert view.stamps[subjects.quota_account("", "team.a")].revision == 7
    view.apply(key, b"", True, 4)
    assert not view.stamps
    assert view.expected(key) == 4


def test_other_epochs_are_not_read_but_their_sequences_count(view: LedgerView) -> None:
    assert put(view, subjects.decision_key(2, *NAME), decision(), 8) == NOTHING
    assert not view.decisions
    assert view.sequence == 8


def test_a_new_epoch_starts_empty(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    assert put(view, subjects.EPOCH_KEY, Epoch(epoch=2, pods_version=50), 3) == Change(epoch=True)
    assert (view.epoch.epoch, view.epoch.pods_version) == (2, 50)
    assert not view.decisions
    assert not view.members
    assert view.expected(KEY) == 0
    assert view.expected(subjects.EPOCH_KEY) == 3
    put(view, subjects.decision_key(2, *NAME), decision(), 4)
    assert NAME in view.decisions


def test_the_same_epoch_again_keeps_everything(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    assert put(view, subjects.EPOCH_KEY, Epoch(epoch=1), 3) == NOTHING
    assert NAME in view.decisions
    assert view.expected(subjects.EPOCH_KEY) == 3


def test_a_reservation_has_the_empty_namespace(view: LedgerView) -> None:
    key = subjects.decision_key(1, "", "r1")
    put(view, key, decision(namespace="", name="r1", kind="reservation"), 2)
    assert ("", "r1") in view.decisions


@pytest.mark.parametrize("key", [KEY, "e1.decision.only-one", "e1.unknown.x", subjects.plan_key(1, "p")])
def test_a_malformed_message_is_refused_and_read_past(view: LedgerView, key: str) -> None:
    with pytest.raises(InvalidMessage):
        view.apply(key, b"{", False, 6)
    assert view.sequence == 6
    assert view.expected(key) == 0


def test_reset_forgets_everything(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    view.reset()
    assert (view.epoch.epoch, view.sequence, view.decisions) == (0, 0, {})
