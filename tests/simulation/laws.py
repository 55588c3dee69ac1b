"""The laws that a run is judged by, the excuses that they know, and how often each was applied.

A law that no seed has applied proves nothing. So both are counted over all seeds of a run, printed, and a law that was
never applied fails the run.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

import msgspec

from berth.invariants import PROMISES, Counts, Excuse

ENOUGH: Final = 200
"""Seeds after which every law must have been applied."""
LAWS: Final = {
    **{name: promise.title for name, promise in PROMISES.items()},
    "I14": "no plan is rejected by the verifier",
    "I38": "what nothing wants any more is as it was found",
    "I44": "what is recorded comes out as it was decided",
    "L1": "all settles",
    "L2": "nobody waits for nothing",
    "epochs": "no epoch is raised for nothing",
    "alarms": "the auditor raises no false alarm",
    "endings": "no placement is said to have ended that goes on",
    "told": "no status is asked for more often than every 2 s",
    "kubelet": "no card goes by minor that kubelet has picked",
    "prices": "tables of prices make sense, and come back",
    "bounds": "what is told of how near to the best batches are can be true",
    "rights": "nobody needs a right that it does not have",
    "errors": "no error is logged that no fault explains",
}
"""By the name that they are counted under: what they ask for."""


class Pardon(StrEnum):
    """Why something is held against nobody at the end of a run, beside what `Excuse` names."""

    LEAVING = "leaving"
    """L1: a pod that is on its way out is neither bound nor told."""
    CLOCK = "clock set back"
    """L1: whoever ends a Reservation has a clock by which its time is not over."""
    NODE_REMADE = "node remade"
    """L1: the node of a Reservation that has failed is younger than it is, so it was away."""
    LOSS = "loss"
    """epochs: LEDGER has lost something since the last one was raised."""
    UNFINISHED = "unfinished"
    """epochs: the one before had not begun when its successor's writer came to hold the Lease."""
    GANG = "gang"
    """L2: how a gang is placed is a search, which may succeed later."""
    NEVER_QUIET = "never quiet"
    """L2: things went on changing, so that nobody can tell who was forgotten."""
    CHANGED = "changed meanwhile"
    """L2: who waits was placed, but after something else had changed."""
    TROUBLE = "undone in trouble"
    """alarms: the auditor calls a decision undone while faults keep it from being carried out."""
    DEAD_LETTER = "dead letter"
    """errors: a message was given up that had been delivered many times without an end."""
    REFUSED_LETTER = "dead letter refused"
    """errors: a message was given up that the API server had refused many times."""
    NOT_STORED = "dead letter not stored"
    """errors: the bus was away when one was to be kept."""
    API_REFUSES = "API refuses"
    """errors: the API server does not carry out a request."""
    API_AWAY = "API away"
    """errors: nobody answers."""
    DIFFERENCE = "difference found"
    """errors: the auditor's alarms are judged by themselves."""
    GARBLED = "entry garbled"
    """errors: somebody has overwritten an entry of LEDGER with what nobody can read."""
    MANY_EPOCHS = "many epochs"
    """errors: entries are overwritten faster than epochs may be raised."""
    FULL = "ledger full"
    """errors: LEDGER takes no plan, since it is as large as it may be."""
    KERNEL = "kernel refuses"
    """errors: the control group of best-effort pods is away, or does not take what is written."""


EXCUSES: Final = frozenset(each.value for kind in (Excuse, Pardon) for each in kind)
"""All names that can be counted; the README says of each what it excuses and why."""


class Applied(msgspec.Struct):
    """How often each law was applied, and how often each excuse kept it from that, by law and name."""

    judged: dict[str, int] = {}
    excused: dict[str, dict[str, int]] = {}

    @classmethod
    def of(cls, counts: Counts) -> Self:
        """What was counted in one run."""
        made = cls(judged={law: times for law, times in counts.judgements.items() if times})
        for (law, excuse), times in sorted(counts.excuses.items()):
            made.excused.setdefault(law, {})[excuse] = times
        return made

    def add(self, other: Applied) -> None:
        """Count another run as well."""
        for law, times in other.judged.items():
            self.judged[law] = self.judged.get(law, 0) + times
        for law, excuses in other.excused.items():
            mine = self.excused.setdefault(law, {})
            for excuse, times in excuses.items():
                mine[excuse] = mine.get(excuse, 0) + times

    def never(self, seeds: int) -> list[str]:
        """Laws that so many seeds have not applied once, though they are enough to."""
        return [law for law in LAWS if not self.judged.get(law)] if seeds >= ENOUGH else []

    def table(self) -> list[str]:
        """For people: a line per law."""
        lines = []
        for law, title in LAWS.items():
            excuses = self.excused.get(law, {})
            named = ", ".join(f"{name} {times}" for name, times in sorted(excuses.items()))
            told = f"judged {self.judged.get(law, 0)}, excused {sum(excuses.values())}{f' ({named})' if named else ''}"
            lines.append(f"{law:<8} {title:<48} {told}")
        return lines
