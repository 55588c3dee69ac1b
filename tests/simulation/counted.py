"""A seed run for the tally, in a process of a pool, with the state of the code that it was run on."""

from __future__ import annotations

import functools

from tests.simulation import tally
from tests.simulation.run import Outcome, run_task

_code = functools.cache(tally.code_under_test)


def run_counted(task: tuple[int, str]) -> tuple[str, Outcome]:
    """The hash of the code as this process found it at its first seed, and what became of the seed."""
    return _code(), run_task(task)
