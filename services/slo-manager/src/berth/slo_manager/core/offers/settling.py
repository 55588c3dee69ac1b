"""An offer falls at once, and rises after two reports: one report alone may have been made in a lucky moment."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple


class Seen(NamedTuple):
    """What an amount came to by the newest report (the least, if it was worked out more than once), and by the one
    before; None: there was none."""

    report: object
    amount: int
    former: int | None


class Settling:
    """What the amounts of one node came to, by name."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, Seen] = {}

    def settled(self, name: Hashable, report: object, amount: int, shown: int) -> int:
        """The amount to offer.

        Args:
            name: of the amount.
            report: which report it was worked out from; equal for the same one.
            amount: what it comes to.
            shown: what is offered until now.
        """
        before = self._seen.get(name)
        if before is None:
            seen = Seen(report, amount, None)
        elif before.report == report:
            seen = before._replace(amount=min(before.amount, amount))
        else:
            seen = Seen(report, amount, before.amount)
        self._seen[name] = seen
        if amount <= shown:
            return amount
        return shown if seen.former is None else max(shown, min(seen.former, seen.amount))
