"""What solvers tell of how near to the best their batches are can be true, and where nobody knows, it says why.

Judged by what the contract says, not by what the solver asks of an answer.
"""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.harness import Harness

from berth.contracts.codec import decode
from berth.contracts.event import BatchBound, PlacementBounded
from berth.contracts.subjects import event_subject

LAW: Final = "bounds"
SUBJECT: Final = event_subject("placement", "bounded", "")[: -len("=")]
UNKNOWN: Final = frozenset(
    ("late", "failed", "not ready", "busy", "resting", "too large", "error", "below", "excessive", "malformed")
)
METHODS: Final = frozenset(("counted", "linear", "integer"))
SLACK: Final = 1e-9


class Bounds:
    """Sees what the bus stores. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.broken: list[str] = []
        harness.nats.on_events.append(self._stored)

    def _stored(self, stored: Any) -> None:
        if not stored.subject.startswith(SUBJECT):
            return
        self._harness.observer.verdicts.judged(LAW)
        message = decode(stored.data, PlacementBounded)
        self.broken += [f"plan {message.plan}: {each}" for each in _wrong(message.bound)]


def _wrong(bound: BatchBound) -> list[str]:
    """What cannot be."""
    if not 0 <= bound.placed < bound.pods:
        return [f"{bound.placed} of {bound.pods} placed"]
    if bound.status == "unknown":
        right = bound.problem in UNKNOWN and bound.gap == -1.0 and not bound.bound
        return [] if right else [f"unknown, for {bound.problem!r}, with {bound.bound}"]
    found = []
    if bound.status not in ("optimal", "bounded") or bound.problem or bound.method not in METHODS:
        found.append(f"{bound.status} by {bound.method!r}, {bound.problem!r}")
    if (bound.status == "optimal") != (bound.bound == bound.objective) or bound.bound < bound.objective:
        found.append(f"{bound.status}: {bound.objective} of at most {bound.bound}")
    if bound.bound > bound.pods or not 0 <= bound.objective <= bound.placed:
        found.append(f"{bound.objective} and at most {bound.bound} of {bound.placed} placed and {bound.pods}")
    if abs(bound.gap * bound.bound - (bound.bound - bound.objective)) > SLACK * max(1, bound.pods):
        found.append(f"a gap of {bound.gap}")
    return found
