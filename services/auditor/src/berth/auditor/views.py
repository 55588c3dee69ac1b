"""The ledger as it is, kept as bytes: a look decodes what it needs, a burst of plans costs next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from berth.bus.port import Entry


class LedgerShelf:
    """Live keys with sequence and value."""

    def __init__(self, at_end: asyncio.Event) -> None:
        """`at_end` is set at each end of the bucket, and no longer when the bucket begins anew."""
        self.live: dict[str, tuple[int, bytes]] = {}
        self.is_known = False
        """The end was reached since the view was last empty."""
        self.read = 0
        """Messages read since the start."""
        self._at_end = at_end

    def reset(self) -> None:
        """The bucket begins anew."""
        self.live.clear()
        self.is_known = False
        self._at_end.clear()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        self.read += 1
        if entry.deleted:
            self.live.pop(entry.key, None)
        else:
            self.live[entry.key] = (entry.sequence, entry.value)

    def end(self, sequence: int) -> None:
        """The end: what is here is all there is."""
        self.is_known = True
        self._at_end.set()

    def copy(self) -> Mapping[str, tuple[int, bytes]]:
        """As it is now."""
        return dict(self.live)
