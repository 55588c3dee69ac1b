"""For whom a pod leaves: who has to be judged anew when it is shown otherwise, or is gone."""

from __future__ import annotations

from berth.rules.eviction_notes import name_of
from berth.transaction.book import Book
from berth.transaction.claims import Name
from berth.transaction.nominations import Nomination


class Beneficiaries:
    """By the name of the victim, as nominations list them."""

    def __init__(self) -> None:
        self._of: dict[Name, set[Name]] = {}

    def on_change(self, nomination: Nomination, stands: bool) -> None:
        """A nomination stands from now on, or no longer."""
        for victim in nomination.victims:
            key = (victim.namespace, victim.name)
            if stands:
                self._of.setdefault(key, set()).add(nomination.name)
            elif (names := self._of.get(key)) is not None:
                names.discard(nomination.name)
                if not names:
                    del self._of[key]

    def of(self, victim: Name, book: Book) -> set[Name]:
        """Those whose nominations list this pod, and the one that it carries a mark for."""
        found = set(self._of.get(victim, ()))
        mark = book.marks.of(victim)
        if mark is not None:
            found.add(name_of(mark))
        return found
