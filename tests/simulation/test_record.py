"""What was counted elsewhere, for this state of the code: the same seeds come to the same end here."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
from tests.simulation import tally as tallies
from tests.simulation.__main__ import again
from tests.simulation.profiles import kind_of

SAMPLE = 3
"""Ordinary runs, and as many of those that dwell on something."""
RUN = "import sys; from tests.simulation.run import run_seed; [print(s, run_seed(int(s)).digest) for s in sys.argv[1:]]"


def python(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [sys.executable, *words], cwd=tallies.ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_seeds_end_here_as_where_they_were_counted() -> None:
    record = tallies.load(tallies.code_under_test(), folder=tallies.ROOT / "nowhere")
    if not record.digests:
        pytest.skip("tests/simulation/record.json is for another state of the code: run seeds, and --record them")
    kinds: tuple[list[int], list[int]] = ([], [])
    for seed in sorted(record.digests):
        kinds[bool(kind_of(seed)[0])].append(seed)
    sample = [seed for kind in kinds for seed in kind[:SAMPLE]]
    run = python("-c", RUN, *map(str, sample))
    assert run.stdout.splitlines() == [f"{seed} {record.digests[seed]}" for seed in sample], run.stderr


def test_the_line_that_runs_a_seed_again_is_one_for_a_shell() -> None:
    words = shlex.split(again(0, "R3 bound"))
    assert words[0] == ".venv/bin/python"
    run = python(*words[1:])
    assert (run.returncode, run.stderr) == (1, "")
    assert "seed 0: " in run.stdout
