"""Annotations of evictions: what was written is read, and what nobody wrote is nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.ledger import Grant
from berth.rules.eviction_notes import (
    LET_GO_MAX,
    NOTE_LENGTH_MAX,
    Mark,
    Nominated,
    let_go_note,
    mark_note,
    name_of,
    nomination_note,
    noted_mark,
    noted_nomination,
    plans_let_go,
)

texts = st.text(min_size=1, max_size=20)
grants = st.builds(
    Grant,
    kind=st.sampled_from(["gpu", "rdma"]),
    id=st.integers(0, 15).map(str),
    amounts=st.dictionaries(texts, st.integers(0, 2**40), max_size=3),
)


@given(st.builds(Nominated, texts, texts, st.lists(grants, max_size=3)))
def test_a_nomination_is_read_as_written(nominated: Nominated) -> None:
    assert noted_nomination(nomination_note(nominated)) == nominated


@given(st.builds(Mark, texts, texts, texts, st.text(max_size=10)))
def test_a_mark_is_read_as_written(mark: Mark) -> None:
    assert noted_mark(mark_note(mark)) == mark


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "7", "{", '{"plan":""}', '{"plan":"p"}', '{"plan":"p","node":7}', "\udcff", "[" * 2000],
)
def test_what_nobody_wrote_is_nothing(text: str) -> None:
    assert noted_nomination({names.ANNOTATION_NOMINATED: text}) is None
    assert noted_mark({names.ANNOTATION_EVICTED_FOR: text}) is None


def test_a_note_that_is_too_long_is_not_read() -> None:
    long = nomination_note(Nominated("p", "n", [Grant(kind="k" * NOTE_LENGTH_MAX, id="0")]))
    assert noted_nomination(long) is None


@pytest.mark.parametrize(("beneficiary", "name"), [("ml/train-0", ("ml", "train-0")), ("/hold", ("", "hold"))])
def test_the_beneficiary_has_a_name(beneficiary: str, name: tuple[str, str]) -> None:
    assert name_of(Mark("p", beneficiary, "u")) == name


def test_the_newest_plans_are_remembered_each_once() -> None:
    notes: dict[str, str] = {}
    for plan in [*map(str, range(LET_GO_MAX + 2)), "5"]:
        notes = let_go_note(notes, plan)
    assert plans_let_go(notes) == ("2", "3", "4", "6", "7", "8", "9", "5")


@pytest.mark.parametrize("text", ["", "{}", "7", '{"a":1}', "[1]", "["])
def test_what_nobody_let_go_is_not_let_go(text: str) -> None:
    assert plans_let_go({names.ANNOTATION_LET_GO: text}) == ()
