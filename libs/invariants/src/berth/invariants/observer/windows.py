"""Windows of ReservationSchedules: each has one Reservation, which ends with it (I30)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.invariants.observer.verdicts import Verdicts
from berth.rules.reservation_window import window_of

PROMISE: Final = "I30"


class Windows:
    """The Reservations that are there, by the window that they were made for."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._made: dict[tuple[str, str], set[str]] = {}
        self._window_of: dict[str, tuple[str, str]] = {}

    def see(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A Reservation as it stands, or one that is gone."""
        meta = data["metadata"]
        name = meta["name"]
        window = self._window_of.pop(name, None)
        if window is not None:
            self._made[window].discard(name)
            if not self._made[window]:
                del self._made[window]
        note = window_of(meta.get("annotations") or {})
        if deleted or note is None:
            return
        window = (note.uid, note.start)
        self._window_of[name] = window
        mine = self._made.setdefault(window, set())
        mine.add(name)
        self._verdicts.judged(PROMISE)
        if len(mine) > 1:
            text = f"the window of {note.start} has {len(mine)} Reservations: {', '.join(sorted(mine))}"
            self._verdicts.add(PROMISE, f"window {note.uid} {note.start}", text)
        expires = data["spec"].get("expires")
        if expires != note.end or not note.start < note.end:
            text = f"reservation {name} ends at {expires}, its window is from {note.start} to {note.end}"
            self._verdicts.add(PROMISE, f"reservation {name}", text)
