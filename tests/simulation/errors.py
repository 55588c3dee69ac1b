"""What services call an error and no fault of a run explains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from berth.invariants.report import EVIDENCE_MAX
from berth.testing.simulation.journal import Entry

REJECTED: Final = "the verifier rejected a plan"
"""How the line begins by which a solver tells of a mistake of its own."""
EXPLAINED: Final = re.compile(
    "|".join(
        (
            r"dead letter: .*(delivered \d+ times|RetryLaterError after \d+ deliveries)",  # delivered again at once, often
            r"dead letter not stored",
            r"the API server does not carry out a request",
            r"cannot connect to Kubernetes",
            r"difference found",  # alarms are judged by themselves
            r"best-effort pods",  # a kernel that says no
        )
    )
)
"""Errors that faults bring about. What a handler cannot carry out now is none: only a warning, until it is buried."""


def is_odd(error: Entry) -> bool:
    """Whether no fault explains it: a command that nobody can read, say, or a handler that raises anything else."""
    return not EXPLAINED.search(error.line.message)


def odd_errors(logged: Iterable[Entry]) -> list[str]:
    """Those that are, each with the promise that it breaks."""
    odd = [each for each in logged if is_odd(each)]
    return [f"{_promise(each)}: {each}" for each in odd[:EVIDENCE_MAX]]


def _promise(entry: Entry) -> str:
    return "I14 rejected by the verifier" if entry.line.message.startswith(REJECTED) else "complaint"
