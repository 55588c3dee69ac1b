"""What services call an error and no fault of a run explains.

A fault explains an error that says so, of a service that the fault can trouble, while it lasts or soon after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from tests.simulation.blinding import hinders_binds
from tests.simulation.faults import Fault
from tests.simulation.laws import Pardon

from berth.invariants import Counts
from berth.invariants.report import EVIDENCE_MAX
from berth.testing.simulation.journal import Entry

REJECTED: Final = "the verifier rejected a plan"
"""How the line begins by which a solver tells of a mistake of its own."""
API_CLIENTS: Final = ("cluster-watcher", "cluster-writer", "auditor")
COMMANDED: Final = ("cluster-writer",)
"""Who alone is given commands, which are all that can become dead letters."""


class Explained(NamedTuple):
    """An error that a fault can bring about: what it says, of which services, and which faults.

    `within_s`: how long after the fault; None: it needs no fault.
    """

    says: re.Pattern[str]
    services: tuple[str, ...]
    by: Callable[[Fault], bool]
    within_s: float | None


def _of_the_api(fault: Fault) -> bool:
    return fault.kind.startswith(("api ", "watches ", "binds ")) or fault.kind in ("conflicts", "leases fail")


def _refuses_or_repeats(fault: Fault) -> bool:
    """Copies of a delivery count as deliveries: while they come twice, a burst of them may use up all tries at once."""
    return _of_the_api(fault) or fault.kind == "twice"


def _of_the_bus(fault: Fault) -> bool:
    return hinders_binds(fault) and not _of_the_api(fault) and fault.kind != "clock"


EXPLAINED: Final[Mapping[Pardon, Explained]] = {
    # Its last delivery was refused as well, by an answer that may have been on its way for 45 s.
    Pardon.REFUSED_LETTER: Explained(
        re.compile(r"dead letter.*RetryLaterError after \d+ deliveries"), COMMANDED, _refuses_or_repeats, 90.0
    ),
    # The one before ended in a fault: it comes again within a minute, to whoever leads by then.
    Pardon.DEAD_LETTER: Explained(re.compile(r"dead letter.*delivered \d+ times"), COMMANDED, hinders_binds, 150.0),
    Pardon.NOT_STORED: Explained(re.compile(r"dead letter not stored"), COMMANDED, _of_the_bus, 60.0),
    # A slow request is on its way for 45 s, and the fifth try says so.
    Pardon.API_REFUSES: Explained(
        re.compile(r"the API server does not carry out a request"), API_CLIENTS, _of_the_api, 90.0
    ),
    Pardon.API_AWAY: Explained(re.compile(r"cannot connect to Kubernetes"), API_CLIENTS, _of_the_api, 90.0),
    Pardon.DIFFERENCE: Explained(re.compile(r"difference found"), ("auditor",), lambda _: True, None),
    Pardon.GARBLED: Explained(
        re.compile(r"an entry of the ledger cannot be read"),
        ("cluster-writer",),
        lambda fault: fault.kind == "entry garbled",
        300.0,  # whoever starts anew before the epoch is raised reads it again
    ),
    Pardon.MANY_EPOCHS: Explained(
        re.compile(r"too many epochs were raised of late.*cannot be read"),
        ("cluster-writer",),
        lambda fault: fault.kind == "entry garbled",
        30.0,
    ),
    Pardon.FULL: Explained(
        re.compile(r"the ledger is full"), ("placement-solver",), lambda fault: fault.kind == "bucket full", 0.0
    ),
    Pardon.KERNEL: Explained(
        re.compile(r"best-effort pods"), ("node-qos-enforcer",), lambda fault: fault.kind == "group gone", 30.0
    ),
}
"""Errors that faults bring about. What a handler cannot carry out now is none: only a warning, until it is buried."""


def is_odd(error: Entry, struck: Iterable[Fault], counts: Counts | None = None) -> bool:
    """Whether no fault explains it: a command that nobody can read, say, or a handler that raises anything else.

    `struck`: the faults that there were so far.
    """
    pardon = next((name for name, each in EXPLAINED.items() if _explains(each, error, struck)), None)
    if counts is not None:
        counts.judged("errors")
        if pardon is not None:
            counts.excused("errors", pardon)
    return pardon is None


def odd_errors(odd: Iterable[Entry]) -> list[str]:
    """These, each with the promise that it breaks."""
    return [f"{_promise(each)}: {each}" for each in list(odd)[:EVIDENCE_MAX]]


def _explains(explained: Explained, error: Entry, struck: Iterable[Fault]) -> bool:
    if not explained.says.search(f"{error.line.message} {error.line.fields}") or not error.process.startswith(
        explained.services
    ):
        return False
    within_s = explained.within_s
    return within_s is None or any(
        fault.at_s + fault.lasts_s + within_s >= error.at_s and explained.by(fault) for fault in struck
    )


def _promise(entry: Entry) -> str:
    return "I14 rejected by the verifier" if entry.line.message.startswith(REJECTED) else "failure"
