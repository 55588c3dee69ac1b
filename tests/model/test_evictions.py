"""The cases of evictions in the default suite: those that are found or searched whole in seconds."""

from __future__ import annotations

import pytest
from tests.model.evictions.cases import CASES, EvictionCase
from tests.model.evictions.rules import SENTENCES, SWITCHES, missing

LIMIT_S = 300.0
SLOW = {
    "without E1: planned anew while victims stay",
    "without E1: a victim that was not seen yet",
    "without E3: the note on the beneficiary",
    "without E4: the uid in a deletion",
    "without E4: the version in a deletion",
    "without E5: planned anew before victims are spared",
}
"""Found after more states than the default suite has time for."""
SMALL = {
    "rules: evictions, the beneficiary is deleted",
    "rules: evictions, migration",
}
"""Searched whole in seconds."""


def named(case: EvictionCase) -> str:
    return case.name


@pytest.mark.parametrize("case", [c for c in CASES if c.expects_violation and c.name not in SLOW], ids=named)
def test_a_rule_taken_away_is_missed(case: EvictionCase) -> None:
    result = case.run(LIMIT_S)
    assert result.verdict
    assert len(result.trace) == result.depth, "the trace is told from the start"


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SMALL], ids=named)
def test_all_rules_hold_in_every_order(case: EvictionCase) -> None:
    result = case.run(LIMIT_S)
    assert not result.verdict, "\n".join(result.trace)
    assert result.is_complete
    assert result.fair_runs > 10


@pytest.mark.parametrize("case", [c for c in CASES if c.is_walk][:2], ids=named)
def test_walks_through_a_large_world_find_nothing(case: EvictionCase) -> None:
    result = case.run(LIMIT_S, walks=15)
    assert not result.verdict, "\n".join(result.trace)
    assert result.is_complete


def test_names_of_cases_are_told_apart() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert set(names) >= SLOW | SMALL


def test_every_part_of_a_rule_has_a_case_without_it_and_one_with_it() -> None:
    lacking = {switch for case in CASES for switch in SWITCHES if not getattr(case.rules, switch)}
    assert lacking == set(SWITCHES)
    assert {rule for case in CASES for rule in missing(case.rules)} == {*SENTENCES, "R10"}
    searched = [case.world for case in CASES if not case.expects_violation]
    assert all(case.world in searched for case in CASES if case.expects_violation)
