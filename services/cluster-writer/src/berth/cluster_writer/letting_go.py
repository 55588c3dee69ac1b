"""Beneficiaries that are being let go: who is, until STATE shows what became of it.

The patch raises the attempt, and so takes back what is decided for the pod meanwhile. A strict gang in which one member
is let go for an older plan would begin by halves: it waits (R9).
"""

from __future__ import annotations

from typing import Final

from berth.contracts.state import Pod, Reservation
from berth.runtime.clock import Clock
from berth.transaction.book import Book
from berth.transaction.claims import Name, name_of

UNKNOWN_MAX_S: Final = 60.0
"""How long a request of which no answer came may still land."""


class LettingGo:
    """By uid, with the version that guards the patch: whatever is newer shows the patch, or that it failed."""

    def __init__(self, book: Book, clock: Clock) -> None:
        self._book = book
        self._clock = clock
        self._asked: dict[str, tuple[Name, int, float]] = {}

    def asked(self, seen: Pod | Reservation) -> None:
        """The patch is about to be sent."""
        self._asked[seen.uid] = (name_of(seen), seen.version, self._clock.monotonic())

    def failed(self, seen: Pod | Reservation) -> None:
        """It will not land."""
        self._asked.pop(seen.uid, None)

    def uids(self) -> frozenset[str]:
        """Those of whom STATE does not show yet what became of it."""
        now = self._clock.monotonic()
        for uid, (name, version, asked_at) in list(self._asked.items()):
            seen = self._book.seen(name)
            is_shown = seen is None or seen.uid != uid or seen.version > version
            if is_shown or now - asked_at > UNKNOWN_MAX_S:
                del self._asked[uid]
        return frozenset(self._asked)
