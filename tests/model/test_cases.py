"""The cases of the default suite: rules whose absence is found soon, and worlds small enough to be searched whole.

`make model` runs all of them, for longer. The limits are far above what a search takes; a slow machine finds the same.
"""

from __future__ import annotations

import pytest
from tests.model.cases import CASES, Case
from tests.model.rules import SENTENCES, SWITCHES, missing

LIMIT_S = 300.0
SLOW = {
    "without R3: replaced by another uid",
    "without R10: the leader is not asked",
    "without R12: planned on any view",
    "without R7: members before the last word",
    "without R8: a plan given up by the clock",
}
"""Found after more states than the default suite has time for."""
SMALL = {
    "rules: three decisions, an update",
    "rules: quota accounts",
    "rules: a max appears",
    "rules: a group moves",
    "rules: an entry becomes unreadable",
    "rules: steps before binds",
    "rules: a Reservation grows",
    "rules: gang, rejection",
    "rules: a late view",
}
"""Searched whole in seconds."""


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.expects_violation and not c.is_walk and c.name not in SLOW], ids=named
)
def test_a_rule_taken_away_is_missed(case: Case) -> None:
    result = case.run(LIMIT_S)
    assert result.verdict
    assert len(result.trace) == result.depth, "the trace is told from the start"


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SMALL], ids=named)
def test_all_rules_hold_in_every_order(case: Case) -> None:
    result = case.run(LIMIT_S)
    assert not result.verdict, "\n".join(result.trace)
    assert result.is_complete
    assert result.fair_runs > 10


def test_walks_through_a_large_world_find_nothing() -> None:
    case = next(c for c in CASES if c.is_walk and not c.expects_violation)
    result = case.run(LIMIT_S, walks=40)
    assert not result.verdict, "\n".join(result.trace)
    assert result.is_complete
    assert result.states > 40 * 50, "the walks are long"


def test_a_walk_finds_a_missing_rule() -> None:
    result = next(c for c in CASES if c.name == "walk: without R3").run(LIMIT_S)
    assert result.verdict


def test_two_runs_are_equal() -> None:
    case = next(c for c in CASES if c.name == "without R8: a plan goes on that was given up")
    first, second = case.run(LIMIT_S), case.run(LIMIT_S)
    assert first._replace(seconds=0) == second._replace(seconds=0)


def test_names_of_cases_are_told_apart() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert set(names) >= SLOW | SMALL


def test_every_part_of_a_rule_has_a_case_without_it_and_one_with_it() -> None:
    """In the same world: what is found comes from the missing rule."""
    lacking = {switch for case in CASES for switch in SWITCHES if not getattr(case.rules, switch)}
    assert lacking == set(SWITCHES)
    assert {rule for case in CASES for rule in missing(case.rules)} == set(SENTENCES)
    searched = {case.world for case in CASES if not case.expects_violation}
    lonely = [case.name for case in CASES if case.expects_violation and not case.is_walk and case.world not in searched]
    assert not lonely, "no case searches these worlds with all rules"
