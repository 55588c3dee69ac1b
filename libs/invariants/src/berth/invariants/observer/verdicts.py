"""What an observer has found, and at which moment; how often it has judged, and how often an excuse kept it from it."""

from __future__ import annotations

from typing import NamedTuple

from berth.invariants.counts import Counts

VIOLATIONS_MAX = 1000


class Violation(NamedTuple):
    """A broken promise. `sequence` is that of LEDGER, `at_s` the time given to the observer, when it was found."""

    promise: str
    subject: str
    text: str
    sequence: int
    at_s: float

    def __str__(self) -> str:
        """One line, for people."""
        return f"{self.promise} at {self.at_s:.3f} s, ledger sequence {self.sequence}: {self.text}"


class Verdicts(Counts):
    """Violations in order, each subject once, at most `VIOLATIONS_MAX` of them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Violation] = []
        self.count = 0
        self.now_s = 0.0
        self.sequence = 0
        self._known: set[tuple[str, str]] = set()

    def add(self, promise: str, subject: str, text: str) -> None:
        """Note a violation, unless this subject has broken this promise before."""
        if (promise, subject) in self._known:
            return
        self.count += 1
        if len(self.found) < VIOLATIONS_MAX:
            self._known.add((promise, subject))
            self.found.append(Violation(promise, subject, text, self.sequence, self.now_s))
