"""The promises, checked on what can be seen: API objects, the ledger, and what nodes report. Pure.

`check(World.of(...))` judges one moment and answers with one result per invariant: its name, a sentence, whether it
holds, and evidence when it does not. `Observer` is shown every message and every change as it happens, and judges all
the moments in between as well. The same functions serve tests, simulations, replays, demonstrations and the auditor.
"""

from berth.invariants.checking import INVARIANTS, Invariant, check
from berth.invariants.counts import Counts, Excuse
from berth.invariants.observer import Observer, Reader, Violation
from berth.invariants.promises import PROMISES, Promise
from berth.invariants.report import Finding, Report, Result
from berth.invariants.world import NodeHold, World

__all__ = [
    "INVARIANTS",
    "PROMISES",
    "Counts",
    "Excuse",
    "Finding",
    "Invariant",
    "NodeHold",
    "Observer",
    "Promise",
    "Reader",
    "Report",
    "Result",
    "Violation",
    "World",
    "check",
]
