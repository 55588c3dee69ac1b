"""A fixed set of seeds for every change; `make simulate` runs as many as there is time for."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.simulation import tally as tallies
from tests.simulation.laws import LAWS
from tests.simulation.planted import run_profiles
from tests.simulation.profiles import SPECIAL, kind_of
from tests.simulation.run import Outcome, run_seed

from berth.placement_solver.core.verify.verifier import Verifier

ROOT = Path(__file__).parents[2]
ORDINARY, SPECIAL_KIND = 41, 107
"""One seed of each, beside those below."""
FOUND = {
    6: "the ledger was lost again before the new epoch had been read: cluster-writer waited for it for ever",
    13: "a delivery came in while a reader compared histories after a reconnect: the service ended",
    988: "pods above a quota's max went between the auditor's list and its word: the judge took that for a false alarm",
}
"""Seeds that found something, and what. A change of the code gives a seed another run, so each has a test of its own
beside the code, too."""
OTHER_INTERPRETER = """
from tests.simulation.planted import run_profiles
from tests.simulation.run import run_seed
for seed, profile in ((42, run_profiles.API_TROUBLE), (SEED, None)):
    found = run_seed(seed, profile=profile)
    print(found.digest, found.trail)
""".replace("SEED", str(ORDINARY))


@cache
def once(seed: int) -> Outcome:
    """A run that several tests look at."""
    return run_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*FOUND, SPECIAL_KIND, ORDINARY])
def test_every_promise_is_kept(seed: int) -> None:
    found = once(seed)
    assert not found.violations, "\n".join([found.summary(), *found.violations, *found.trace])
    assert found.simulated_s >= 300
    assert found.facts["binds"] > 15


@pytest.mark.slow
def test_a_run_counts_what_is_judged_at_its_end() -> None:
    counted = {law for law, times in once(ORDINARY).applied.judged.items() if times}
    assert counted >= {"L1", "I8", "I14", "I1c", "I1d", "I7", "L2", "endings"}
    assert counted <= LAWS.keys()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_in_any_order_and_interpreter() -> None:
    """Here it is run after whatever this process did before, elsewhere after another seed."""
    here = once(ORDINARY)
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    other = subprocess.run(
        [sys.executable, "-c", OTHER_INTERPRETER], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    another, again = (line.split() for line in other.stdout.splitlines())
    assert again == [here.digest, here.trail]
    assert another[0] != here.digest


def test_a_plan_that_the_verifier_rejects_is_a_broken_promise() -> None:
    with patch.object(Verifier, "check", lambda self, claims: ["a mistake"] if len(claims) > 1 else []):
        found = run_seed(0, profile=run_profiles.SHORT)
    assert {text.split(":")[0] for text in found.violations} == {"I14 rejected by the verifier"}


def test_every_fourth_seed_dwells_on_something_for_as_long_as_the_others() -> None:
    kinds = [kind_of(seed) for seed in range(4 * len(SPECIAL))]
    assert sum(1 for name, _ in kinds if not name) == 3 * len(SPECIAL)
    assert {name for name, _ in kinds} == {"", *SPECIAL}
    assert all(profile.whole_s >= 300.0 for _, profile in kinds)


def test_a_tally_counts_seeds_in_order_and_survives_a_stop(tmp_path: Path) -> None:
    tally = tallies.load("code", tmp_path)
    tally.add(0, "a", 300.0, 2.0, {"binds": 3}, bad=False)
    with pytest.raises(ValueError, match="the next one is 1"):
        tally.add(2, "b", 300.0, 2.0, {}, bad=False)
    tally.add(1, "b", 300.0, 2.0, {"binds": 4}, bad=True)
    tallies.save(tally, tmp_path)
    kept = tallies.load("code", tmp_path)
    assert (kept.next_seed, kept.facts, kept.failed, kept.digest) == (2, {"binds": 7}, [1], tally.digest)
    assert tallies.load("other", tmp_path).next_seed == 0
    (tmp_path / "code.json").write_text("{")
    assert tallies.load("code", tmp_path).next_seed == 0


def test_a_recorded_tally_goes_on_in_another_checkout(tmp_path: Path) -> None:
    recorded = tallies.Tally(code="code")
    for seed in range(3):
        recorded.add(seed, "a", 300.0, 2.0, {}, bad=False)
    tallies.write(recorded, tmp_path / "record.json")
    elsewhere = tmp_path / "build"
    go_on = partial(tallies.load, folder=elsewhere, record=tmp_path / "record.json")
    assert go_on("code") == recorded
    assert go_on("other").count == 0, "it counts for one state of the code only"
    here = go_on("code")
    here.add(3, "b", 300.0, 2.0, {}, bad=True)
    tallies.save(here, elsewhere)
    assert go_on("code") == here
    here.failed = []
    recorded.add(3, "b", 300.0, 2.0, {}, bad=True)
    tallies.write(recorded, tmp_path / "record.json")
    tallies.save(here, elsewhere)
    assert go_on("code").failed == [], "of two that are as long the one of this checkout counts"


def test_a_tally_may_begin_with_any_seed_but_is_never_moved(tmp_path: Path) -> None:
    tally = tallies.load("code", tmp_path, first_seed=500)
    tally.add(500, "a", 300.0, 2.0, {}, bad=False)
    tallies.save(tally, tmp_path)
    kept = tallies.load("code", tmp_path, first_seed=9)
    assert (kept.count, kept.first_seed, kept.next_seed) == (1, 500, 501)


def test_the_code_under_test_is_the_sources_of_every_service_and_what_they_stand_on() -> None:
    assert tallies.code_under_test() == tallies.code_under_test()
    assert all((ROOT / part).exists() for part in tallies.UNDER_TEST)
