"""Laws and excuses are counted over all seeds, told, and a law that was never applied fails the run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.simulation import __main__ as command
from tests.simulation import tally as tallies
from tests.simulation.laws import ENOUGH, EXCUSES, LAWS, Applied, Pardon
from tests.simulation.run import Outcome

from berth.invariants import Counts, Excuse

README = Path(__file__).with_name("README.md")


def every_law() -> Applied:
    return Applied(judged=dict.fromkeys(LAWS, 1))


def all_but(law: str) -> Applied:
    return Applied(judged=dict.fromkeys((each for each in LAWS if each != law), 1))


def test_what_a_run_has_counted_is_told_by_law() -> None:
    counts = Counts()
    counts.judged("I1", 3)
    counts.judged("I1c", 0)
    counts.excused("I1", Excuse.LOSS)
    counts.excused("I1", Excuse.STRANGER, 2)
    counts.excused("L1", Pardon.CLOCK)
    applied = Applied.of(counts)
    assert applied.judged == {"I1": 3}
    assert applied.excused == {"I1": {"ledger lost": 1, "stranger unseen": 2}, "L1": {"clock set back": 1}}
    table = {line.split()[0]: line for line in applied.table()}
    assert table.keys() == LAWS.keys()
    assert table["I1"].endswith(" judged 3, excused 3 (ledger lost 1, stranger unseen 2)")
    assert table["I2"].endswith(" judged 0, excused 0")


def test_counts_of_runs_are_summed() -> None:
    sums = Applied(judged={"I1": 1}, excused={"I1": {"a": 1}})
    sums.add(Applied(judged={"I1": 2, "I2": 1}, excused={"I1": {"a": 1, "b": 1}, "I2": {"c": 1}}))
    assert sums == Applied(judged={"I1": 3, "I2": 1}, excused={"I1": {"a": 2, "b": 1}, "I2": {"c": 1}})


def test_a_law_that_was_only_excused_was_never_judged() -> None:
    applied = all_but("I10")
    applied.excused["I10"] = {"unseen": 7}
    assert applied.never(ENOUGH) == ["I10"]
    assert applied.never(ENOUGH - 1) == []
    assert every_law().never(ENOUGH) == []


def test_a_tally_keeps_counts_over_a_stop(tmp_path: Path) -> None:
    tally = tallies.load("code", tmp_path)
    for seed in range(2):
        found = Applied(judged={"I1": 2}, excused={"I1": {"unseen": 1}})
        tally.add(seed, "a", 300.0, 2.0, {}, bad=False, applied=found)
        tallies.save(tally, tmp_path)
        tally = tallies.load("code", tmp_path)
    assert tally.applied == Applied(judged={"I1": 4}, excused={"I1": {"unseen": 2}})


def outcome(seed: int, applied: Applied) -> Outcome:
    return Outcome(seed=seed, digest="d", trail="t", simulated_s=300.0, real_s=1.0, callbacks=1, applied=applied)


@pytest.fixture
def options() -> argparse.Namespace:
    names: dict[str, Any] = {"seeds": ENOUGH, "first": 0, "jobs": 1, "planted": "", "profile": "", "keep_going": False}
    return argparse.Namespace(**names)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Applied]:
    """Every seed counts what is put in here under `each`."""
    given = {"each": every_law()}

    def outcomes(seeds: Any, *_: Any) -> Iterator[Outcome]:
        return (outcome(seed, msgspec.convert(msgspec.to_builtins(given["each"]), Applied)) for seed in seeds)

    monkeypatch.setattr(command, "outcomes", outcomes)
    monkeypatch.setattr(tallies, "save", lambda tally: tallies.write(tally, tmp_path / "tally.json"))
    monkeypatch.setattr(tallies, "load", lambda code, first_seed=0: tallies.Tally(code=code))
    return given


@pytest.mark.parametrize("profile", ["", "all", "ordinary"])
def test_a_law_that_was_never_judged_fails_the_run(
    profile: str,
    options: argparse.Namespace,
    judged: dict[str, Applied],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "PROFILES", {"ordinary": ("",)})
    options.profile = profile
    run = command.of_profiles if profile else command.many
    assert run(options) == 0
    assert "I10b     reserved-stays-free" in capsys.readouterr().out
    judged["each"] = all_but("I10")
    assert run(options) == 1
    assert f"I10 was never judged in {ENOUGH} seeds" in capsys.readouterr().out
    options.seeds = ENOUGH - 1
    assert run(options) == 0
    assert "was never judged" not in capsys.readouterr().out


def test_seeds_of_several_profiles_count_together(
    options: argparse.Namespace, judged: dict[str, Applied], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(iter(command.SPECIAL))
    monkeypatch.setattr(command, "PROFILES", {"ordinary": ("",), "one": (name,)})
    options.profile, options.seeds = "all", ENOUGH // 2
    judged["each"] = all_but("I10")
    assert command.of_profiles(options) == 1
    options.profile = name
    assert command.of_profiles(options) == 0


def test_a_run_with_a_planted_bug_asks_for_no_law(options: argparse.Namespace, judged: dict[str, Applied]) -> None:
    judged["each"] = Applied()
    options.planted = "R2"
    assert command.many(options) == 0


def test_every_excuse_that_can_be_counted_is_explained() -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| `") and line.count("|") == 5]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    explained = {name.strip("`"): (laws.split(", "), what, why) for name, laws, what, why in cells}
    assert len(explained) == len(rows), "each excuse has one row"
    assert explained.keys() == EXCUSES
    for laws, what, why in explained.values():
        assert set(laws) <= LAWS.keys()
        assert what
        assert why
