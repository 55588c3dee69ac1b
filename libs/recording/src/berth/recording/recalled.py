"""Grounds as segments have them: in the heads of checkpoints, and in the entries of plans that told them."""

from __future__ import annotations

from contextlib import suppress

from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Plan
from berth.contracts.round import Ground
from berth.recording.grounds import Grounds, Known
from berth.recording.records import AnyRecord, Began, Entered, Told, Whole


def told_by(entered: Entered) -> Ground | None:
    """The ground that the entry of a plan tells; None of any other message. Raises InvalidMessage."""
    if entered.bucket != buckets.LEDGER or entered.deleted or ".plan." not in entered.key:
        return None
    origin = decode(entered.value, Plan).round
    return origin.told if origin is not None else None


class Recalled:
    """Those of the records of a run, taken in their order. What cannot be used is left out.

    What plans of a checkpoint told is older than what its head tells, and would push that out.
    """

    def __init__(self, grounds: Grounds | None = None) -> None:
        """`grounds`: where they are kept; without it they are its own."""
        self.grounds = grounds if grounds is not None else Grounds()
        self._is_covered = False

    def take(self, record: AnyRecord) -> Known | None:
        """The ground that a record tells; None: it tells none that can be used."""
        if isinstance(record, Began | Whole):
            self._is_covered = False
        elif isinstance(record, Told):
            self._is_covered = True
            return self._keep(record.ground)
        elif isinstance(record, Entered) and not self._is_covered:
            with suppress(InvalidMessage):
                return self._keep(told_by(record))
        return None

    def _keep(self, ground: Ground | None) -> Known | None:
        if ground is None or self.grounds.take(ground) is not None:
            return None
        return self.grounds.of(ground.id)
