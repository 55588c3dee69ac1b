"""How often the decisions for an object were withdrawn, one soon after the other.

A decision is withdrawn for what cluster-writer saw and the solver did not: a card that was swapped, a node that is
gone. Mostly the next look shows it. Where a view stays behind, the same decision would come again at once, many times a
second, so the third in a row is the first that waits for a back-off.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Reason
from berth.contracts.state import Pod, Reservation
from berth.transaction.claims import Name

AT_ONCE: Final = 2
"""So many in a row cost no time."""
FORGET_S: Final = 60.0
"""One that comes this long after the one before begins a new row."""


class Row(NamedTuple):
    """So many in a row until `at`, monotonic seconds."""

    uid: str
    attempt: int
    times: int
    at: float

    @property
    def rejections(self) -> int:
        """How many of them count for a back-off."""
        return max(0, self.times - AT_ONCE)

    @property
    def reason(self) -> Reason:
        """What people are told of it."""
        message = f"its last {self.times} decisions were withdrawn before the bind, so the next one waits a little"
        return Reason(code="withdrawn", message=message)


class Withdrawals:
    """The rows of all objects, the oldest first."""

    def __init__(self) -> None:
        self._rows: dict[Name, Row] = {}

    def seen(self, name: Name, obj: Pod | Reservation, now: float) -> Row | None:
        """An object waits that did not before: its row. None: nothing of it was withdrawn lately."""
        self._forget(now)
        if obj.attempt <= 0:
            return None
        row = self._rows.get(name)
        if row is None or row.uid != obj.uid:
            row = Row(obj.uid, obj.attempt, 1, now)
        elif obj.attempt > row.attempt:
            row = Row(obj.uid, obj.attempt, row.times + 1, now)
        else:
            return row
        self._rows.pop(name, None)
        self._rows[name] = row
        return row

    def _forget(self, now: float) -> None:
        while self._rows:
            name = next(iter(self._rows))
            if now - self._rows[name].at <= FORGET_S:
                return
            del self._rows[name]
