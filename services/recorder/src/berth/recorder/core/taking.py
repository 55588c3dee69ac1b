"""Taking down: what buckets show, as records, and all of it once more at the head of each segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from berth.contracts import buckets
from berth.contracts.errors import InvalidMessage
from berth.recording.grounds import Grounds, told
from berth.recording.recalled import Recalled, told_by
from berth.recording.records import AnyRecord, Began, Ended, Entered, Missed, Told, Whole

MARKERS_KEPT_S: Final = 3600.0
"""Deletions are part of a checkpoint for as long as the server keeps their markers: views count by them."""
RECORD_BYTES: Final = 128
"""What a record takes besides its value, about."""


class Bucket:
    """One bucket, as it is. `missed` was replaced before it was read, and not all that replaced it has been read."""

    def __init__(self) -> None:
        self.entries: dict[str, Entered] = {}
        self.sequence = 0
        self.is_whole = False
        self.missed: list[tuple[int, int]] = []


class Taking:
    """All buckets. While it is `on`, what comes is put down in `records`, in the order in which it comes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._buckets = {name: Bucket() for name in names}
        self._grounds = Grounds()
        self._recalled = Recalled(self._grounds)
        self._recalled_to = (0, 0.0)  # the newest message of LEDGER that an earlier segment has: its sequence, its time
        self._newest_s = 0.0
        self.on = False
        self.records: list[AnyRecord] = []
        self.bytes = 0
        """About how much memory `records` take."""
        self.refused = 0
        """Grounds of plans that could not be used."""

    @property
    def is_whole(self) -> bool:
        """Every bucket was read to its end since it began."""
        return all(each.is_whole for each in self._buckets.values())

    @property
    def unread(self) -> list[str]:
        """Those that were not."""
        return [name for name, each in self._buckets.items() if not each.is_whole]

    @property
    def keys(self) -> int:
        """How many values there are, deletions included."""
        return sum(len(each.entries) for each in self._buckets.values())

    # --- what buckets show -------------------------------------------------------------------------------------------

    def reset(self, name: str) -> None:
        """A bucket begins anew: nothing more of what was is put down, and a new checkpoint comes first."""
        self._buckets[name] = Bucket()
        self.stop()

    def apply(self, entered: Entered, *, gap: bool) -> None:
        """The next message of its bucket; `gap`: the one before it was replaced before it was read."""
        name = entered.bucket
        bucket = self._buckets[name]
        if gap and bucket.is_whole and entered.sequence > bucket.sequence + 1:
            missed = (bucket.sequence + 1, entered.sequence - 1)
            bucket.missed.append(missed)
            self._put(Missed(name, *missed))
        bucket.sequence = entered.sequence
        bucket.entries.pop(entered.key, None)  # so that they stand in the order of their sequences
        bucket.entries[entered.key] = entered
        self._newest_s = max(self._newest_s, entered.stored_s)
        self._put(entered, len(entered.value))
        if not self._is_recalled(entered):
            self._look_for_ground(entered)

    def end(self, name: str) -> None:
        """The end of a bucket was reached."""
        bucket = self._buckets[name]
        bucket.is_whole = True
        if bucket.missed:
            bucket.missed = []
            self._put(Ended(name, bucket.sequence))

    def recall(self, record: AnyRecord) -> None:
        """Take over what an earlier segment of the same folder has of grounds, before the buckets are read: the plan
        that told one may be gone from LEDGER."""
        if isinstance(record, Entered) and record.bucket == buckets.LEDGER:
            sequence, stored_s = self._recalled_to
            self._recalled_to = max(sequence, record.sequence), max(stored_s, record.stored_s)
        self._recalled.take(record)

    def _is_recalled(self, entered: Entered) -> bool:
        """An earlier segment goes further than this message. What it told is known, or was pushed out by newer grounds,
        which it would push out now. By both, since the bucket may have begun anew and clocks of servers jump."""
        sequence, stored_s = self._recalled_to
        return entered.sequence <= sequence and entered.stored_s <= stored_s

    def _look_for_ground(self, entered: Entered) -> None:
        try:
            ground = told_by(entered)
            is_refused = ground is not None and self._grounds.take(ground) is not None
        except InvalidMessage:
            is_refused = True
        self.refused += is_refused

    # --- what is put down --------------------------------------------------------------------------------------------

    def _put(self, record: AnyRecord, size: int = 0) -> None:
        if self.on:
            self.records.append(record)
            self.bytes += RECORD_BYTES + size

    def taken(self) -> list[AnyRecord]:
        """What was put down since this was asked last."""
        found, self.records, self.bytes = self.records, [], 0
        return found

    def stop(self) -> None:
        """Put nothing down any more."""
        self.on, self.records, self.bytes = False, [], 0

    def checkpoint(self, run: str, at_s: float, streams: Mapping[str, str]) -> Iterator[AnyRecord]:
        """The head of a segment, with everything as it is at this moment, while more may come; from now on what comes
        is put down."""
        self.on = True
        head: list[AnyRecord] = [Began(run, at_s, dict(streams))]
        head += (Told(told(each.ground, each.nodes)) for each in self._grounds)
        values: list[Entered] = []
        missed: list[AnyRecord] = []
        for name, bucket in self._buckets.items():
            self._forget_markers(bucket)
            values += bucket.entries.values()
            missed += (Missed(name, *each) for each in bucket.missed)
        return _chained(head, values, missed)

    def _forget_markers(self, bucket: Bucket) -> None:
        before = self._newest_s - MARKERS_KEPT_S
        old = [key for key, each in bucket.entries.items() if each.deleted and each.stored_s < before]
        for key in old:
            del bucket.entries[key]


def _chained(head: list[AnyRecord], values: list[Entered], missed: list[AnyRecord]) -> Iterator[AnyRecord]:
    yield from head
    yield from values
    yield from missed
    yield Whole()
