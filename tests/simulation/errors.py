"""What services call an error and no fault of a run explains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tests.simulation.laws import Pardon

from berth.invariants import Counts
from berth.invariants.report import EVIDENCE_MAX
from berth.testing.simulation.journal import Entry

REJECTED: Final = "the verifier rejected a plan"
"""How the line begins by which a solver tells of a mistake of its own."""
EXPLAINED: Final[Mapping[Pardon, re.Pattern[str]]] = {
    Pardon.DEAD_LETTER: re.compile(r"dead letter: .*(delivered \d+ times|RetryLaterError after \d+ deliveries)"),
    Pardon.NOT_STORED: re.compile(r"dead letter not stored"),
    Pardon.API_REFUSES: re.compile(r"the API server does not carry out a request"),
    Pardon.API_AWAY: re.compile(r"cannot connect to Kubernetes"),
    Pardon.DIFFERENCE: re.compile(r"difference found"),
    Pardon.KERNEL: re.compile(r"best-effort pods"),
}
"""Errors that faults bring about. What a handler cannot carry out now is none: only a warning, until it is buried."""


def is_odd(error: Entry, counts: Counts | None = None) -> bool:
    """Whether no fault explains it: a command that nobody can read, say, or a handler that raises anything else."""
    pardon = next((name for name, said in EXPLAINED.items() if said.search(error.line.message)), None)
    if counts is not None:
        counts.judged("errors")
        if pardon is not None:
            counts.excused("errors", pardon)
    return pardon is None


def odd_errors(logged: Iterable[Entry]) -> list[str]:
    """Those that are, each with the promise that it breaks."""
    odd = [each for each in logged if is_odd(each)]
    return [f"{_promise(each)}: {each}" for each in odd[:EVIDENCE_MAX]]


def _promise(entry: Entry) -> str:
    return "I14 rejected by the verifier" if entry.line.message.startswith(REJECTED) else "complaint"
