"""What of the minimums is lent, and to whom."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.quota_manager.core.book import Claim, ClassKey
from berth.quota_manager.core.engine import Engine
from berth.quota_manager.core.group import GroupSpec
from berth.quota_manager.core.loans import NAMES_MAX, NONE, Loans, loans_below
from berth.quota_manager.core.quota_state import state_text


def engine_of(total, groups, asked):
    """Groups below the root (name -> min), what is asked for in each, and what all nodes offer."""
    engine = Engine()
    for name, minimum in groups.items():
        engine.put_quota(name, GroupSpec(name=name, min={"cpu": minimum}, max={"cpu": 1000}))
    for name, amount in asked.items():
        engine.book.put(name, ClassKey(name), Claim((("cpu", amount),), False, False))
    engine.put_node("n", {"cpu": total})
    engine.settle()
    return engine


def loans_of(engine):
    return loans_below(engine.forest.roots[""])


def test_what_is_lent_is_named_on_both_sides():
    loans = loans_of(engine_of(100, {"a": 60, "b": 40}, {"b": 90}))
    assert loans["a"] == ({"cpu": 50}, {}, ("b",), ())
    assert loans["b"] == ({}, {"cpu": 50}, (), ("a",))


def test_what_nobody_was_promised_is_no_loan():
    loans = loans_of(engine_of(100, {"a": 10, "b": 20}, {"b": 60}))
    assert loans["a"] == loans["b"] == NONE


def test_nothing_is_lent_where_nobody_is_hungry():
    loans = loans_of(engine_of(100, {"a": 60, "b": 40}, {"b": 10}))
    assert loans["a"] == loans["b"] == NONE


def test_few_others_are_named():
    lenders = {f"l{number:02}": 10 for number in range(20)}
    loans = loans_of(engine_of(200, {**lenders, "z": 0}, {"z": 200}))
    assert len(loans["z"].borrowed_from) == NAMES_MAX
    assert loans["l00"].lent_to == ("z",)


def test_a_level_is_looked_at_when_something_on_it_moved():
    engine = engine_of(100, {"a": 60, "b": 40}, {"b": 90})
    loans = Loans()
    loans.touch([engine.forest.groups["a"]])
    assert loans.settle() == {"a", "b"}
    assert loans.settle() == set()
    loans.touch([engine.forest.groups["a"]])
    assert loans.settle() == set()


def test_the_state_of_a_quota_is_short_and_says_why():
    engine = engine_of(100, {"a": 60, "b": 40}, {"b": 150})
    loans = loans_of(engine)
    told = json.loads(state_text(engine.forest.groups["b"], loans["b"], engine.pods_of("b")[1]))
    assert told == {
        "effectiveMin": {"cpu": "40m"},
        "borrowed": {"cpu": "60m"},
        "borrowedFrom": ["a"],
        "waitingPods": 1,
        "short": ["cpu"],
    }
    assert json.loads(state_text(engine.forest.groups["a"], loans["a"], 0)) == {
        "effectiveMin": {"cpu": "60m"},
        "lent": {"cpu": "60m"},
        "lentTo": ["b"],
    }


@given(
    st.integers(0, 200),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 60), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 200)),
)
@settings(max_examples=200)
def test_what_is_lent_is_what_is_borrowed(total, groups, asked):
    engine = engine_of(total, groups, {name: amount for name, amount in asked.items() if name in groups})
    loans = loans_of(engine)
    lent = sum(loan.lent.get("cpu", 0) for loan in loans.values())
    assert lent == sum(loan.borrowed.get("cpu", 0) for loan in loans.values())
    for name, loan in loans.items():
        group = engine.forest.groups[name]
        idle = group.effective_min.get("cpu", 0) - group.runtime.get("cpu", 0)
        assert 0 <= loan.lent.get("cpu", 0) <= max(0, idle)
        assert 0 <= loan.borrowed.get("cpu", 0) <= max(0, -idle)
        assert not (loan.lent and loan.borrowed)
