"""Who writes next: so many a second, whatever changes at once."""

from hypothesis import given
from hypothesis import strategies as st

from berth.slo_manager.core.turns import Budget, Turns


def test_the_lowest_rank_goes_first_then_who_has_waited_longest():
    turns = Turns(Budget(2.0))
    for name, rank in (("b", (1.0,)), ("a", (1.0,)), ("c", (0.0,)), ("gone", (0.0,))):
        turns.wait(name, rank)
    turns.forget("gone")
    turns.wait("b", (1.0,))
    assert turns.come(0.0) == []
    assert turns.come(1.0) == ["c", "b"]
    assert len(turns) == 1
    assert [turns.takes(name) for name in ("c", "c", "a")] == [True, False, False]


def test_who_changes_its_rank_has_a_new_place():
    turns = Turns(Budget(1.0, at_first=1.0))
    turns.wait("a", (1.0,))
    turns.wait("b", (2.0,))
    turns.wait("b", (0.0,))
    assert turns.come(0.0) == ["b"]


def test_where_nobody_waits_it_goes_at_once():
    turns = Turns(Budget(2.0, at_first=2.0))
    assert [turns.may(name, 0.0) for name in "abc"] == [True, True, False]
    assert turns.come(0.5) == ["c"]
    assert not turns.may("d", 0.9)
    assert turns.may("c", 0.9)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.floats(0, 2)), max_size=60))
def test_no_more_than_the_budget_and_nobody_twice(asked):
    turns, now, chosen, waiting = Turns(Budget(1.0)), 0.0, 0, set()
    for name, rank, passed in asked:
        turns.wait(name, (float(rank),))
        waiting.add(name)
        now += passed
        found = turns.come(now)
        assert len(found) == len(set(found))
        assert set(found) <= waiting
        waiting -= set(found)
        chosen += len(found)
        assert len(turns) == len(waiting)
        assert chosen <= now
