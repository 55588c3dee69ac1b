"""What was read, in order: values at a point, and all that came after it, bucket by bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth.bus.port import Entry
from berth.contracts import buckets
from berth.contracts.round import Read
from berth.recording.records import Entered, Missed

KEPT_S: Final = 60.0
"""What is older than that is read by every solver: one that is further behind makes no plans that can be made again."""
KEPT_MIN: Final = 20_000
"""So many messages of a bucket are kept, however old they are."""
OFFER_KEYS: Final = "offer."
ORDER: Final = (
    buckets.INVENTORY,
    buckets.QUOTA,
    buckets.RESERVATION,
    buckets.SLO,
    buckets.METRICS,
    buckets.STATE,
    buckets.LEDGER,
)


def is_read(entered: Entered) -> bool:
    """Whether a solver reads it."""
    return entered.bucket != buckets.SLO or entered.key.startswith(OFFER_KEYS)


def short(bucket: str) -> str:
    """The name of a bucket as plans say it."""
    return bucket.removeprefix("berth_")


def entry_of(entered: Entered, *, gap: bool = False) -> Entry:
    """As a follower sees it."""
    return Entry(
        entered.key,
        entered.value,
        entered.deleted,
        entered.sequence,
        0,
        gap,
        entered.trace,
        entered.stored_s,
    )


class Values:
    """The newest value of each key, bucket by bucket, in the order of their sequences."""

    def __init__(self, of: Mapping[str, Mapping[str, Entered]] | None = None) -> None:
        self._of: dict[str, dict[str, Entered]] = {name: dict(each) for name, each in (of or {}).items()}
        self._newest: dict[str, int] = {}

    def copy(self) -> Values:
        """Another one with the same."""
        return Values(self._of)

    def put(self, entered: Entered) -> None:
        """A newer value."""
        bucket = self._of.setdefault(entered.bucket, {})
        bucket.pop(entered.key, None)
        bucket[entered.key] = entered
        if is_read(entered):
            self._newest[entered.bucket] = max(entered.sequence, self.newest(entered.bucket))

    def of(self, bucket: str) -> Iterable[Entered]:
        """Of one bucket."""
        return self._of.get(bucket, {}).values()

    def newest(self, bucket: str) -> int:
        """The highest sequence of what a solver reads of it."""
        return self._newest.get(bucket, 0)


class Hole:
    """Messages that recorder missed. `until`: all that replaced them has been read there; None: that is not known."""

    def __init__(self, missed: Missed) -> None:
        self.first, self.last = missed.first, missed.last
        self.until: int | None = None

    def concerns(self, read: Read) -> bool:
        """Whether a solver that had read so far may have had values that nobody recorded."""
        if read.sequence < self.first or (self.until is not None and read.sequence >= self.until):
            return False
        pairs = zip(read.missed[::2], read.missed[1::2], strict=False)
        return not any(first <= self.first and min(self.last, read.sequence) <= last for first, last in pairs)


class Tape:
    """Values, and what came after them. `base` moves on with time."""

    def __init__(self) -> None:
        self.base = Values()
        self.recorded: dict[str, int] = {}
        """The highest sequence of each bucket that is on the tape."""
        self.holes: dict[str, list[Hole]] = {}
        self._after: dict[str, list[Entered]] = {}
        self._from: dict[str, int] = {}
        self.newest_s = 0.0

    def put(self, entered: Entered, *, in_checkpoint: bool) -> None:
        """The next message."""
        self.recorded[entered.bucket] = max(entered.sequence, self.recorded.get(entered.bucket, 0))
        self.newest_s = max(self.newest_s, entered.stored_s)
        if in_checkpoint:
            self.base.put(entered)
        elif is_read(entered):
            self._after.setdefault(entered.bucket, []).append(entered)

    def missed(self, missed: Missed) -> None:
        """Messages that were not recorded."""
        self.holes.setdefault(missed.bucket, []).append(Hole(missed))

    def ended(self, bucket: str, sequence: int) -> None:
        """What replaced the messages that were missed is recorded."""
        for hole in self.holes.get(bucket, ()):
            if hole.until is None:
                hole.until = sequence

    def after(self, bucket: str, position: int) -> Iterator[Entered]:
        """What came, from a position on."""
        listed, first = self._after.get(bucket, []), self._from.get(bucket, 0)
        for at in range(max(position - first, 0), len(listed)):
            yield listed[at]

    def start(self, bucket: str) -> int:
        """The first position behind the base."""
        return self._from.get(bucket, 0)

    def drop(self, positions: Mapping[str, int]) -> None:
        """The base moves on to these positions: nobody is before them any more."""
        for bucket, position in positions.items():
            listed, first = self._after.get(bucket, []), self._from.get(bucket, 0)
            for each in listed[: max(position - first, 0)]:
                self.base.put(each)
            del listed[: max(position - first, 0)]
            self._from[bucket] = max(position, first)

    def old(self) -> dict[str, int]:
        """The positions up to which everybody has read by now, where there is much."""
        found = {}
        for bucket, listed in self._after.items():
            if len(listed) <= 2 * KEPT_MIN:
                continue
            count = sum(1 for each in listed[:-KEPT_MIN] if each.stored_s < self.newest_s - KEPT_S)
            if count:
                found[bucket] = self._from.get(bucket, 0) + count
        return found
