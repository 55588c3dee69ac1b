"""How far a solver has read each bucket, so that a plan can say what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts import buckets
from berth.contracts.round import Read

NODE_METRICS: Final = "nodemetrics"
"""Those keys of STATE that are followed apart, by who looks at what nodes really use."""
MISSED_MAX: Final = 256
"""Pairs that a plan names: who misses so many values is far behind, and its plans are not made again."""


class Following:
    """Of one bucket: see `Read`. `ended` is where its end was seen last."""

    def __init__(self) -> None:
        self.sequence = 0
        self.ended = 0
        self._missed: list[int] = []

    def reset(self) -> None:
        """The bucket begins anew."""
        self.__init__()  # type: ignore[misc]

    def applied(self, entry: Entry) -> None:
        """The next message was taken in."""
        if entry.gap and entry.sequence > self.sequence + 1 and len(self._missed) <= 2 * MISSED_MAX:
            self._missed += (self.sequence + 1, entry.sequence - 1)
        self.sequence = entry.sequence

    def end(self) -> None:
        """All that was missed has been replaced by what was read."""
        self.ended = self.sequence
        if self._missed:
            self._missed = []

    @property
    def read(self) -> Read:
        """As a plan says it."""
        return Read(sequence=self.sequence, missed=self._missed)

    @property
    def is_lost(self) -> bool:
        """More was missed than a plan can name."""
        return len(self._missed) > 2 * MISSED_MAX


class Reading:
    """Of all buckets that are followed."""

    def __init__(self) -> None:
        self._buckets: dict[str, Following] = {}
        self._streams: list[Callable[[], str]] = []

    def of(self, bucket: str) -> Following:
        """Of one bucket, by its name or that of a part of it."""
        return self._buckets.setdefault(bucket.removeprefix("berth_"), Following())

    def follow(self, stream: Callable[[], str]) -> None:
        """`stream` says when the stream of a bucket was made."""
        self._streams.append(stream)

    @property
    def reads(self) -> dict[str, Read]:
        """How far each was read. Who is alive is no part of it: plans say so themselves."""
        return {name: each.read for name, each in self._buckets.items() if each.sequence and name != _LEASE}

    @property
    def ended(self) -> int:
        """Where the end of STATE was seen last."""
        return self.of(buckets.STATE).ended

    @property
    def is_lost(self) -> bool:
        """More was missed of a bucket than a plan can name."""
        return any(each.is_lost for each in self._buckets.values())

    @property
    def streams(self) -> tuple[str, ...]:
        """When the streams were made that are read."""
        return tuple(each() for each in self._streams)


_LEASE: Final = buckets.LEASE.removeprefix("berth_")
