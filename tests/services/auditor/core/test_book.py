"""Which differences are there, and which of them are news."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.auditor.core.book import AUDITED, Book
from berth.invariants import Finding

SHOWN = st.frozensets(st.tuples(st.sampled_from(["I1", "I2", "I4"]), st.sampled_from("abcd")), max_size=6)


def findings(keys: frozenset[tuple[str, str]]) -> list[tuple[str, Finding]]:
    return [(promise, Finding(subject, f"{subject} is wrong")) for promise, subject in sorted(keys)]


@given(st.lists(st.tuples(SHOWN, st.floats(0, 100)), max_size=12))
def test_found_and_gone_take_turns(looks: list[tuple[frozenset[tuple[str, str]], float]]) -> None:
    """What is found was shown twice in a row, is not found again before it is gone, and goes only if it was found."""
    book, open_, before, now_s = Book(settle_s=50), set(), frozenset(), 0.0
    since: dict[tuple[str, str], float] = {}
    for shown, pause_s in looks:
        now_s += pause_s
        since = {key: since.get(key, now_s) for key in shown}
        news = book.settle(findings(shown), findings(shown & before), now_s)
        found = {(each.promise, each.subject) for each in news.found}
        gone = {(each.promise, each.subject) for each in news.gone}
        assert not found & open_
        assert gone == open_ - shown
        open_ = (open_ | found) - gone
        assert open_ == book.known.keys()
        slow = {key for key in shown & before if key[0] == "I4" and now_s - since[key] < 50}
        assert open_ >= (shown & before) - slow
        assert not slow & found
        before = shown


def test_counts_name_every_promise() -> None:
    book = Book(settle_s=0)
    both = findings(frozenset({("I1", "a"), ("I2", "b")}))
    book.settle(both, [], 0.0)
    assert book.doubts()
    book.settle(both, both, 1.0)
    assert not book.doubts()
    assert book.counts() == {name: int(name in ("I1", "I2")) for name in AUDITED}


def test_an_id_is_one_token_and_belongs_to_the_subject() -> None:
    book = Book(settle_s=0)
    both = findings(frozenset({("I1", "a"), ("I2", "a"), ("I1", "b")}))
    found = book.settle(both, both, 0.0).found
    ids = {(each.promise, each.subject): each.id for each in found}
    assert ids["I1", "a"] == ids["I2", "a"] != ids["I1", "b"]
    assert all(each.isalnum() and len(each) == 16 for each in ids.values())
