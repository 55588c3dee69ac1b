"""The promises, checked on what can be seen: API objects, the ledger, and what nodes report. Pure.

`check(World.of(...))` answers with one result per invariant: its name, a sentence, whether it holds, and evidence when
it does not. The same function serves tests, replays, demonstrations and an auditor.
"""

from berth.invariants.checking import INVARIANTS, Invariant, check
from berth.invariants.report import Report, Result
from berth.invariants.world import NodeHold, World

__all__ = ["INVARIANTS", "Invariant", "NodeHold", "Report", "Result", "World", "check"]
