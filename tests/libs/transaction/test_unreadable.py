"""An entry of LEDGER that cannot be read: what was known of it stays, and nobody writes over it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import AccountStamp, Allocation, Decision, Epoch, Plan, PlanStatus
from berth.transaction.book import Book

NAME = ("default", "train.0")
KEY = subjects.decision_key(1, *NAME)
PLAN = subjects.plan_key(1, "plan-1")
STAMP = subjects.account_key(1, subjects.quota_account("", "team"))
GARBAGE = b'{"node": 7'


def decision(**fields: Any) -> Decision:
    return Decision(
        **{
            "plan": "plan-1",
            "namespace": NAME[0],
            "name": NAME[1],
            "uid": "u",
            "attempt": 0,
            "node": "n",
            "allocation": Allocation(amounts={"cpu": 1000}),
            "pod_version": 1,
            "basis": 1,
            **fields,
        }
    )


@pytest.fixture
def book() -> Book:
    made = Book()
    made.read_ledger(subjects.EPOCH_KEY, encode(Epoch(epoch=1)), False, 1)
    made.read_ledger(KEY, encode(decision()), False, 2)
    made.read_ledger(STAMP, encode(AccountStamp(plan="plan-1", revision=9)), False, 3)
    made.read_ledger(PLAN, encode(Plan(id="plan-1", status=PlanStatus.COMMITTED)), False, 4)
    return made


def garble(book: Book, key: str, value: bytes = GARBAGE, sequence: int = 5) -> None:
    with pytest.raises(InvalidMessage):
        book.read_ledger(key, value, False, sequence)


def test_the_capacity_of_the_decision_before_stays(book: Book) -> None:
    garble(book, KEY)
    book.refresh(NAME)
    assert [claim.node for claim in book.claims_of(NAME)] == ["n"]
    assert book.ledger.members == {"plan-1": {NAME}}


def test_a_decision_of_another_name_is_not_read(book: Book) -> None:
    garble(book, KEY, encode(decision(name="other")))
    assert book.ledger.decisions[NAME].decision == decision()


def test_a_plan_of_another_id_is_not_read(book: Book) -> None:
    garble(book, PLAN, encode(Plan(id="plan-2", status=PlanStatus.ABORTED)))
    assert book.ledger.plan_status("plan-1") is PlanStatus.COMMITTED


@pytest.mark.parametrize("key", [KEY, PLAN, STAMP])
def test_what_was_not_read_is_not_expected_and_the_view_says_so(book: Book, key: str) -> None:
    before = book.ledger.expected(key)
    garble(book, key)
    assert book.ledger.expected(key) == before, "R1: the server refuses to write over what we could not read"
    assert book.ledger.unreadable == {key: 5}


def test_the_revision_of_the_stamp_before_stays(book: Book) -> None:
    garble(book, STAMP)
    assert book.ledger.stamps[subjects.quota_account("", "team")].revision == 9
    assert book.ledger.unreadable


def test_a_word_of_the_leader_does_not_bring_its_sequence_back(book: Book) -> None:
    key = subjects.decision_key(1, "default", "new")
    garble(book, key)
    book.ledger.learn_marker(key, 4)
    assert book.ledger.expected(key) == 0


def test_it_is_over_once_the_key_is_written_again_or_deleted(book: Book) -> None:
    garble(book, KEY)
    garble(book, PLAN, sequence=6)
    book.read_ledger(KEY, encode(decision(node="m")), False, 7)
    book.read_ledger(PLAN, b"", True, 8)
    assert not book.ledger.unreadable
    assert [claim.node for claim in book.claims_of(NAME)] == ["m"]


def test_it_is_over_with_its_epoch(book: Book) -> None:
    garble(book, KEY)
    assert book.ledger.unreadable
    book.read_ledger(subjects.EPOCH_KEY, encode(Epoch(epoch=2)), False, 9)
    assert not book.ledger.unreadable


def test_a_stamp_that_counts_nothing_is_only_reported(book: Book) -> None:
    """Nodes and reservations have stamps for their sequences alone: those were read."""
    node = subjects.account_key(1, subjects.node_account("n"))
    garble(book, node)
    assert (book.ledger.unreadable, book.ledger.expected(node)) == ({}, 5)
