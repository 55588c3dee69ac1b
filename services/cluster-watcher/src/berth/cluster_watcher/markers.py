"""Markers of STATE: through which version a kind is complete, so that a reader can tell gone from not read yet.

- What a list brings comes in no order. A marker `complete: false` is acknowledged before the first write that a list
  needs, and a marker `complete: true` is written when the last of its writes is acknowledged.
- Markers are always written alone, with nothing in flight. A kind that is not installed is complete without objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.bus.port import Clock, OwnedPort
from berth.cluster_watcher.batch_writer import BatchWriter
from berth.cluster_watcher.conflicts import Conflicts
from berth.cluster_watcher.core.published_view import PublishedView
from berth.cluster_watcher.source import Source
from berth.contracts.codec import encode
from berth.contracts.state import Synced
from berth.contracts.subjects import synced_key

MARK_PAUSE_S: Final = 1.0
MARK_PAUSE_MIN_S: Final = 0.001
"""Between two markers of a kind that no bookmark asked for."""


class Markers:
    """Writes them, and knows which are due."""

    def __init__(
        self,
        sources: Sequence[Source],
        published: PublishedView,
        writer: BatchWriter,
        conflicts: Conflicts,
        *,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._published = published
        self._writer = writer
        self._conflicts = conflicts
        self._clock = clock

    def says_incomplete(self, source: Source) -> bool:
        """STATE says already that the kind is not complete, or has no marker for it."""
        marker = self._published.markers.get(source.scope.marker)
        return not source.scope.marker or (marker is not None and not marker.complete)

    async def open(self, owned: OwnedPort, source: Source) -> bool:
        """Say that the kind is not complete while its list is being written; False: somebody else is at it."""
        return await self.write(owned, source, self._version(source), complete=False)

    async def absent(self, owned: OwnedPort, source: Source) -> None:
        """Others wait for this kind: publish that there is nothing of it. What is known of it is never withdrawn so:
        a kind that vanishes while it has objects is for people to look at."""
        if not self._published.keys(source.scope.kind.prefix):
            await self.write(owned, source, self._version(source), complete=True)

    async def write(self, owned: OwnedPort, source: Source, version: int, *, complete: bool) -> bool:
        """Write the marker of a kind, with nothing else in flight. False: somebody else wrote it, or STATE was lost."""
        kind = source.scope.marker
        if not kind or source.is_void:
            return not source.is_void
        known = self._published.markers.get(kind)
        marker = Synced(kind=kind, version=version, complete=complete)
        if known is not None and (known == marker or known.version > version):
            if known.complete:
                source.published = max(source.published, known.version)
            return known.complete == complete
        era, key = self._writer.era, synced_key(kind)
        if self._conflicts.is_overtaken(key):
            return False
        self._published.mark(marker)
        owned.put(key, encode(marker))
        await self._writer.drained(owned)
        if era != self._writer.era or self._conflicts.is_overtaken(key):
            return False
        source.marked_at = self._clock.monotonic()
        if complete:
            source.published = max(source.published, version)
        return True

    # --- kinds whose version moves on without a write -----------------------------------------------------------------

    def next_s(self) -> float | None:
        """Seconds until the next marker that no step will bring; None: none is due."""
        due = min((source.marked_at for source in self._idle()), default=None)
        return None if due is None else max(due + MARK_PAUSE_S - self._clock.monotonic(), MARK_PAUSE_MIN_S)

    async def publish_idle(self, owned: OwnedPort) -> None:
        """Write the markers that are due and that no step will bring."""
        now = self._clock.monotonic()
        for source in self._idle():
            if source.marked_at + MARK_PAUSE_S <= now:
                source.marked_at = now
                await self.write(owned, source, source.through, complete=True)

    def _idle(self) -> list[Source]:
        """Whose version moved on without a write. Only a marker shows that."""
        return [
            source
            for source in self._sources
            if source.synced and not source.listing and not source.is_doubtful and source.through > source.published
        ]

    def _version(self, source: Source) -> int:
        marker = self._published.markers.get(source.scope.marker)
        return 0 if marker is None else marker.version
