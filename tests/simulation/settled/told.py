"""How often services ask for an object to show another status: once in two seconds, beside its phases.

What a fault of the bus has held up arrives together, behind a silence of as long. So an object saves up a request for
each two seconds without one, and each request takes one: who asks more often has none left, whatever happened before.
Requests are counted, not writes: cluster-writer may carry one out twice, when an answer was lost.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.simulation.harness import Harness

from berth.contracts.codec import decode
from berth.contracts.command import PatchObject

KINDS: Final = frozenset({"reservations", "reservationschedules", "podgroups", "elasticquotas"})
"""Those whose status is Berth's to write."""
PAUSE_S: Final = 2.0
SPARE: Final = 3.0
"""Requests that an object begins with: they differ in how long they take, and who starts anew asks at once."""
SAVED_MAX: Final = 16.0
"""Half a minute's."""


class _Account(NamedTuple):
    """Requests that are left, as of a moment."""

    left: float
    at_s: float

    def at(self, now_s: float) -> float:
        return min(SAVED_MAX, self.left + (now_s - self.at_s) / PAUSE_S)


class StatusRequests:
    """Counts what the bus stores. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._phases: dict[str, Any] = {}
        self._accounts: dict[str, _Account] = {}
        self.too_often: list[str] = []
        """Objects for which services asked more often."""
        harness.nats.on_commands.append(self._asked)

    def _asked(self, stored: Any) -> None:
        if ".cmd.patch." not in stored.subject:
            return
        kind = stored.subject.partition(".cmd.patch.")[2].partition(".")[0]
        if kind not in KINDS:
            return
        asked = decode(stored.data, PatchObject)
        if asked.status is None:
            return
        phase = asked.status.get("phase")
        is_phase = phase is not None and self._phases.get(asked.uid) != phase
        self._phases[asked.uid] = phase
        if is_phase:
            return
        self._harness.observer.verdicts.judged("told")
        now_s = self._harness.world.now
        left = self._accounts.get(asked.uid, _Account(SPARE, now_s)).at(now_s) - 1.0
        if left < 0.0:
            text = f"{kind} {asked.name}: another status is asked for more often than every {PAUSE_S:.0f} s"
            self.too_often.append(f"{text}, at {now_s:.1f} s")
            left = SPARE
        self._accounts[asked.uid] = _Account(left, now_s)
