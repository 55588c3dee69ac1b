"""Annotations of evictions: what was written is read, and what nobody wrote is nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.ledger import DeviceGrant
from berth.rules.eviction_notes import (
    LET_GO_MAX,
    NOTE_LENGTH_MAX,
    REFUSED_FOR_S,
    REFUSED_MAX,
    Mark,
    Nominated,
    let_go_note,
    mark_note,
    name_of,
    nomination_note,
    noted_mark,
    noted_nomination,
    plans_let_go,
    refusal_note,
    refused_victims,
)

texts = st.text(min_size=1, max_size=20)
grants = st.builds(
    DeviceGrant,
    kind=st.sampled_from(["gpu", "rdma"]),
    minor=st.integers(0, 15),
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
    long = nomination_note(Nominated("p", "n", [DeviceGrant(kind="k" * NOTE_LENGTH_MAX, minor=0)]))
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


def test_a_refusal_counts_for_a_while() -> None:
    notes = refusal_note({}, ["b", "a"], 1000.0)
    assert refused_victims(notes, 1000.0 + REFUSED_FOR_S - 1) == {"a", "b"}
    assert refused_victims(notes, 1000.0 + REFUSED_FOR_S) == set()


def test_refusals_that_still_count_are_kept_beside_new_ones() -> None:
    first = refusal_note({}, ["old"], 0.0)
    second = refusal_note(first, ["a"], 100.0)
    third = refusal_note(second, ["a", "b"], REFUSED_FOR_S + 50.0)
    assert refused_victims(third, REFUSED_FOR_S + 50.0) == {"a", "b"}
    assert refused_victims(third, REFUSED_FOR_S + 150.0) == {"a", "b"}, "a was refused again"
    assert refusal_note(second, [], 100.0) == {}


def test_the_newest_refusals_are_remembered() -> None:
    notes = refusal_note({}, ["first"], 0.0)
    notes = refusal_note(notes, map(str, range(REFUSED_MAX)), 1.0)
    assert len(refused_victims(notes, 2.0)) == REFUSED_MAX
    assert "first" not in refused_victims(notes, 2.0)


@pytest.mark.parametrize("text", ["", "{}", "7", '["a"]', '[{"uid":""}]', '[{"uid":"a","until":"soon"}]', "["])
def test_what_nobody_refused_is_not_refused(text: str) -> None:
    assert refused_victims({names.ANNOTATION_REFUSED: text}, 0.0) == set()
