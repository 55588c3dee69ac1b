"""How often services write the status of an object: 30 times a minute at most, beside its phases."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from tests.simulation.harness import Harness

from berth.simcluster.store import Event
from berth.simcluster.store.collection import DELETED

KINDS: Final = frozenset({"reservations", "reservationschedules", "podgroups", "elasticquotas"})
"""Those whose status is Berth's to write."""
WINDOW_S: Final = 60.0
HELD_UP: Final = 15
"""Writes of the half minute before that a fault may have held up: they land together."""
WRITES_MAX: Final = 31 + HELD_UP
"""In a minute, the first and the last moment of which both count."""


class StatusWrites:
    """Counts what the API server stores. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._shown: dict[str, dict[str, Any]] = {}
        self._at: dict[str, deque[float]] = {}
        self.too_often: list[str] = []
        """Objects that were written more often."""
        harness.kube.store.listen(self._stored)

    def _stored(self, event: Event) -> None:
        if event.resource.plural not in KINDS:
            return
        uid, status = event.obj.uid, event.obj.data.get("status") or {}
        if event.kind == DELETED:
            self._shown.pop(uid, None)
            self._at.pop(uid, None)
            return
        before = self._shown.get(uid)
        self._shown[uid] = status
        if before is None or before == status or before.get("phase") != status.get("phase"):
            return
        self._harness.observer.verdicts.judged("told")
        now = self._harness.world.now
        times = self._at.setdefault(uid, deque())
        times.append(now)
        while times[0] <= now - WINDOW_S:
            times.popleft()
        if len(times) > WRITES_MAX:
            text = f"{event.resource.plural} {event.obj.meta['name']}: {len(times)} writes of its status"
            self.too_often.append(f"{text} in the minute until {now:.1f} s")
            times.clear()
