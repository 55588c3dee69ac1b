"""How often services write the status of an object: once in two seconds, beside its phases.

What a fault has held up lands together, behind a silence of as long. So an object saves up a write for each two seconds
without one, and each write takes one: who writes more often has none left, whatever happened before.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.simulation.harness import Harness

from berth.simcluster.store import Event
from berth.simcluster.store.collection import DELETED

KINDS: Final = frozenset({"reservations", "reservationschedules", "podgroups", "elasticquotas"})
"""Those whose status is Berth's to write."""
PAUSE_S: Final = 2.0
SPARE: Final = 3.0
"""Writes that an object begins with: requests differ in how long they take, and who starts anew writes at once."""
SAVED_MAX: Final = 16.0
"""Half a minute's."""


class _Account(NamedTuple):
    """Writes that are left, as of a moment."""

    left: float
    at_s: float

    def at(self, now_s: float) -> float:
        return min(SAVED_MAX, self.left + (now_s - self.at_s) / PAUSE_S)


class StatusWrites:
    """Counts what the API server stores. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._shown: dict[str, dict[str, Any]] = {}
        self._accounts: dict[str, _Account] = {}
        self.too_often: list[str] = []
        """Objects that were written more often."""
        harness.kube.store.listen(self._stored)

    def _stored(self, event: Event) -> None:
        if event.resource.plural not in KINDS:
            return
        uid, status = event.obj.uid, event.obj.data.get("status") or {}
        if event.kind == DELETED:
            self._shown.pop(uid, None)
            self._accounts.pop(uid, None)
            return
        before = self._shown.get(uid)
        self._shown[uid] = status
        if before is None or before == status or before.get("phase") != status.get("phase"):
            return
        self._harness.observer.verdicts.judged("told")
        now_s = self._harness.world.now
        left = self._accounts.get(uid, _Account(SPARE, now_s)).at(now_s) - 1.0
        if left < 0.0:
            text = f"{event.resource.plural} {event.obj.meta['name']}: its status is written more often than every"
            self.too_often.append(f"{text} {PAUSE_S:.0f} s, at {now_s:.1f} s")
            left = SPARE
        self._accounts[uid] = _Account(left, now_s)
