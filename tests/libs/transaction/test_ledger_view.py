"""The fold of LEDGER: one epoch at a time, with the sequence that the next write of each key has to expect."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts import subjects
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.errors import Broken
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


def test_plans_go_from_open_to_committed(view: LedgerView) -> None:
    key = subjects.plan_key(1, "plan-1")
    assert view.plan_status("plan-1") is None
    for sequence, status in enumerate((PlanStatus.OPEN, PlanStatus.COMMITTED), 2):
        assert put(view, key, Plan(id="plan-1", status=status), sequence) == Change(plan="plan-1")
        assert view.plan_status("plan-1") is status
    view.apply(key, b"", True, 9)
    assert view.plan_status("plan-1") is None
    assert view.expected(key) == 9


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
def test_a_malformed_message_is_broken_and_its_sequence_counts(view: LedgerView, key: str) -> None:
    with pytest.raises((Broken, ValueError)):
        view.apply(key, b"{", False, 6)
    assert view.sequence == 6
    assert view.expected(key) == 6


def test_a_malformed_decision_does_not_leave_the_old_one_behind(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    with pytest.raises(Broken):
        view.apply(KEY, b"{}", False, 3)
    assert view.expected(KEY) == 3


def test_reset_forgets_everything(view: LedgerView) -> None:
    put(view, KEY, decision(), 2)
    view.reset()
    assert (view.epoch.epoch, view.sequence, view.decisions) == (0, 0, {})
