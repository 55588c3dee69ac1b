"""What the buckets show: each bucket's messages, one after the other, taken down."""

from __future__ import annotations

from berth.bus.port import Entry
from berth.recorder.core.taking import Taking
from berth.recording.records import Entered


def entered_of(bucket: str, entry: Entry) -> Entered:
    """A message as it is recorded."""
    return Entered(bucket, entry.sequence, entry.key, entry.value, entry.deleted, entry.stored_s, entry.traceparent)


class BucketView:
    """Of one bucket."""

    def __init__(self, name: str, taking: Taking) -> None:
        self._name = name
        self._taking = taking

    def reset(self) -> None:
        """The bucket begins anew."""
        self._taking.reset(self._name)

    def apply(self, entry: Entry) -> None:
        """The next message."""
        self._taking.apply(entered_of(self._name, entry), gap=entry.gap)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self._taking.end(self._name)
