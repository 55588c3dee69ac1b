"""What the buckets show: each bucket's messages into the view, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from berth.bus.port import Entry
from berth.contracts.errors import InvalidMessage
from berth.placement_solver import metrics
from berth.placement_solver.reading import Following


class ViewSink:
    """Feeds one bucket into the view; a message that cannot be read is counted and left out."""

    def __init__(
        self,
        bucket: str,
        apply: Callable[[Entry], None],
        reset: Callable[[], None],
        end: Callable[[], None],
        wake: Callable[[], None],
        log: Callable[..., object],
        following: Following,
    ) -> None:
        """`following` is told how far the bucket was read."""
        self._bucket = bucket
        self._apply = apply
        self._reset = reset
        self._end = end
        self._wake = wake
        self._log = log
        self._following = following
        self._ended_at: int | None = None

    def reset(self) -> None:
        """The bucket starts over."""
        self._ended_at = None
        self._following.reset()
        self._reset()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            self._apply(entry)
        except (InvalidMessage, ValueError) as error:
            metrics.BROKEN_MESSAGES.labels(self._bucket).inc()
            self._log("a message cannot be read and is left out", bucket=self._bucket, key=entry.key, error=str(error))
        self._following.applied(entry)
        self._wake()

    def end(self, sequence: int) -> None:
        """The end was reached; repeated while nothing comes, which is no news."""
        if sequence != self._ended_at:
            self._ended_at = sequence
            self._following.end()
            self._end()
            self._wake()
