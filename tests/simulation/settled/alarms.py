"""What the auditor has said, and should not have: it sees everything late, and must not take that for a difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tests.simulation.stand import Stand

from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.event import AuditDifference
from berth.invariants import INVARIANTS
from berth.invariants.facts import Facts
from berth.testing.simulation.nats.stream import Stream

UNDONE_S: Final = 60.0
"""How long a decision may stay undone before the auditor says so."""
FOUND: Final = ".audit.found."


class Alarms:
    """Every difference that is raised, against what is at that very moment. Made before anything happens."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._untrue: list[tuple[float, AuditDifference]] = []
        self._add_stream = stand.nats.add_stream
        stand.nats.add_stream = self._added  # type: ignore[method-assign]

    def untrue(self, troubles: Iterable[tuple[float, float]]) -> list[str]:
        """Differences that were none.

        A decision may stay undone (I4) until a while after trouble.
        """
        spans = list(troubles)
        found = []
        for at_s, said in self._untrue:
            if said.promise != "I4" or not any(begin < at_s and end > at_s - UNDONE_S for begin, end in spans):
                found.append(f"{said.promise} {said.subject} at {at_s:.1f} s: {said.evidence}")
        return found

    def watch(self, stream: Stream) -> None:
        """Hear what this stream stores of the auditor."""
        tell = stream.tell

        def heard(stored: Iterable[Any]) -> None:
            stored = list(stored)
            for each in stored:
                if FOUND in each.subject:
                    self.hear(decode(each.data, AuditDifference))
            tell(stored)

        stream.tell = heard  # type: ignore[method-assign]

    def hear(self, said: AuditDifference) -> None:
        """The auditor has found a difference, now. A gang caught by a loss may be half there for long, and is one."""
        gangs = self._stand.observer.gangs
        world = self._stand.observer.world(quiet=said.promise == "I3")
        facts = Facts(replace(world, excused_gangs=frozenset(gangs.excused - gangs.caught)))
        judge = next((each for each in INVARIANTS if each.name == said.promise), None)
        if judge is None or all(finding.subject != said.subject for finding in judge.find(facts)):
            self._untrue.append((self._stand.world.now, said))

    def _added(self, stream: Stream) -> None:
        self._add_stream(stream)
        if stream.name == buckets.EVENTS:
            self.watch(stream)
