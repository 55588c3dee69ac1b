"""One key of an owned bucket: what its newest message is, what the owner wants there, what is on its way."""

from __future__ import annotations

from typing import NamedTuple

from berth.bus.port import Entry, Stored

GONE = -1
"""Mark of a key that is deleted, or was never there; `hash` never gives it."""


class Change(NamedTuple):
    """A write that the owner wants."""

    payload: bytes
    mark: int  # GONE: a deletion marker
    traceparent: str | None


class Flight(NamedTuple):
    """A write on its way. `era` counts how often the bucket was lost, `number` the writes that were sent."""

    key: str
    change: Change
    expected: int
    era: int
    number: int


class Key:
    """What is known and wanted of one key. A mark is the hash of a value, or GONE."""

    __slots__ = ("flight", "late", "mark", "number", "passed", "sequence", "waiting")

    def __init__(self) -> None:
        self.sequence = 0  # of its newest message; 0: none
        self.mark = GONE  # of the value behind that sequence
        self.flight: Flight | None = None
        self.waiting: Change | None = None
        self.number = 0  # of the newest write that was sent
        self.late: int | None = None  # mark of a write that was given up, but may still arrive
        self.passed: Entry | None = None  # another one, shown while ours was on its way

    def newest_mark(self) -> int:
        """Of the value that will be there once all writes have arrived."""
        if self.waiting is not None:
            return self.waiting.mark
        return self.mark if self.flight is None else self.flight.change.mark

    @property
    def busy(self) -> bool:
        """A write of it has no outcome yet."""
        return self.waiting is not None or self.flight is not None


def mark_of(stored: Stored) -> int:
    """The mark of what the leader holds."""
    return GONE if stored.deleted else hash(stored.value)
