"""The command: which seeds it runs, with which profile, and what it does when the code is edited meanwhile."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.simulation import __main__ as command
from tests.simulation import tally as tallies
from tests.simulation.profiles import PROFILES, SPECIAL, kind_of
from tests.simulation.run import Outcome

CODE = "0123456789abcdef01234567"


def outcome(seed: int) -> Outcome:
    return Outcome(seed=seed, digest="d", trail="t", simulated_s=300.0, real_s=1.0, callbacks=1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The seeds that were run, profile by profile."""
    asked: list[list[int]] = []

    def outcomes(seeds: Sequence[int], *_: Any) -> Iterator[Outcome]:
        asked.append(list(seeds))
        return map(outcome, seeds)

    monkeypatch.setattr(command, "outcomes", outcomes)
    monkeypatch.setattr(tallies, "code_under_test", lambda: CODE)
    return asked


def options(profile: str, first: int = 0, seeds: int = 3) -> argparse.Namespace:
    return argparse.Namespace(profile=profile, first=first, seeds=seeds, jobs=1)


def test_fresh_seeds_follow_from_the_code_and_leave_capacity_for_every_profile() -> None:
    first = tallies.fresh(CODE)
    assert first == int("01234567", 16) * 1_000
    assert tallies.fresh("01234567" + "f" * 16) == first
    assert tallies.fresh("01234568" + CODE[8:]) == first + 1_000


@pytest.mark.parametrize("name", ["ordinary", next(iter(SPECIAL)), list(SPECIAL)[-1]])
def test_a_profile_runs_fresh_seeds_that_have_it(name: str, asked: list[list[int]]) -> None:
    assert command.of_profiles(options(name)) == 0
    (seeds,) = asked
    assert len(set(seeds)) == 3
    assert min(seeds) >= tallies.fresh(CODE)
    assert {kind_of(seed)[0] for seed in seeds} == {"" if name == "ordinary" else name}


def test_all_are_a_run_of_each_profile(asked: list[list[int]]) -> None:
    assert command.of_profiles(options("all", seeds=max(map(len, PROFILES.values())))) == 0
    kinds = [[kind_of(seed)[0] for seed in seeds] for seeds in asked]
    assert [set(each) for each in kinds] == [set(situations) for situations in PROFILES.values()]


def test_each_situation_is_of_one_profile_and_each_name_means_one_thing() -> None:
    assert sorted(itertools.chain(*PROFILES.values())) == sorted(["", *SPECIAL])
    assert not set(PROFILES) & set(SPECIAL)


def test_seeds_of_a_profile_may_begin_anywhere(asked: list[list[int]]) -> None:
    assert command.of_profiles(options("ordinary", first=5)) == 0
    assert asked == [[5, 6, 8]]


def test_no_profile_of_that_name(asked: list[list[int]], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.of_profiles(options("no such")) == 2
    assert asked == []
    assert "no profile is called 'no such'" in capsys.readouterr().err


def test_one_process_notices_an_edit_as_several_do(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter([CODE, CODE, "edited"])
    monkeypatch.setattr(command, "run_task", lambda task: outcome(task[0]))
    monkeypatch.setattr(tallies, "code_under_test", lambda: next(states))
    found = command.outcomes(range(5), "", 1, CODE)
    assert [next(found).seed, next(found).seed] == [0, 1]
    with pytest.raises(command.CodeChangedError, match="seed 2 ended on edited"):
        next(found)


def test_a_planted_bug_is_looked_for_in_any_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_task", lambda task: outcome(task[0]))
    monkeypatch.setattr(tallies, "code_under_test", lambda: "edited")
    assert len(list(command.outcomes(range(2), "R2", 1, CODE))) == 2
