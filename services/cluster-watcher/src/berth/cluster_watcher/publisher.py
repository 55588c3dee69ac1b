"""Steps from the watches become writes of STATE, in the API server's order.

A follower of STATE takes the highest version it has read for the version through which its view is complete. So what
is written of a kind must never overtake what comes before it:
- within a batch no key occurs twice, and the next batch begins when all of it is acknowledged (`drain`), so no write
  waits behind another and none is replaced by a newer one on its way;
- what a list brings comes in no order, so its kind is marked incomplete while it is being written (`markers`).

A key's version never goes down (`PublishedView`). What somebody else writes meanwhile is judged again (`batch_writer`),
and what cannot be explained so leads to a new list of the kind (`conflicts`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, assert_never

from berth.bus.port import Clock, Entry, OwnedPort
from berth.cluster_watcher import metrics
from berth.cluster_watcher.batch_writer import BatchWriter
from berth.cluster_watcher.conflicts import Conflicts
from berth.cluster_watcher.core.published_view import PublishedView, Verdict
from berth.cluster_watcher.markers import Markers
from berth.cluster_watcher.outbox import Absent, Began, Finished, Gone, Nothing, Outbox, Put, Reached
from berth.cluster_watcher.source import OLDER, Source
from berth.contracts.codec import encode
from berth.contracts.state import Synced
from berth.contracts.subjects import synced_key
from berth.runtime.crowding import Crowding
from berth.telemetry import Logger

BATCH_MAX: Final = 512
"""Writes in flight at once; the window of the bus holds as many."""
GATHER_S: Final = 0.005
GATHER_PER_BATCH: Final = 2.0
GATHER_PER_STEP_S: Final = 0.002
GATHER_MAX_S: Final = 0.2
"""Pause after a batch: this many times what it took, within these bounds, and no longer than so much for each step of
it: what comes alone is never held up, and holds up nobody."""
CROWDED_S: Final = 0.07
CROWDED_PER_STEP_S: Final = 0.007
"""The pause where this process always waits for a core, and its bound for each step."""


def gather_s(took_s: float, steps: int, crowded: float) -> float:
    """The pause after a batch of so many steps that took so long; `crowded` is the share of the time in which this
    process has something to do and waits for a core.

    A batch wakes up every service, and those who plan, record and bind pay for each plan, not for each pod. Where cores
    are free that costs nobody anything. Where they are not, everybody waits for it, and what was gathered here need not
    be gathered once more.
    """
    usual_s = min(max(GATHER_S, GATHER_PER_BATCH * took_s), GATHER_PER_STEP_S * steps)
    return min(max(usual_s, min(CROWDED_S * crowded, CROWDED_PER_STEP_S * steps)), GATHER_MAX_S)


class Publisher:
    """The only place from which STATE is written. Also the sink of its own bucket."""

    def __init__(
        self,
        sources: list[Source],
        outbox: Outbox,
        published: PublishedView,
        *,
        clock: Clock,
        crowding: Crowding,
        log: Logger,
        halt: Callable[[], None],
    ) -> None:
        self.conflicts = Conflicts(sources, published)
        self.resets = 0
        self._sources = sources
        self._outbox = outbox
        self._published = published
        self._clock = clock
        self._crowding = crowding
        self._log = log
        self._halt = halt
        self._writer = BatchWriter(published, self.conflicts, clock=clock, log=log)
        self._markers = Markers(sources, published, self._writer, self.conflicts, clock=clock)

    # --- what the bucket shows ----------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Sink: the bucket is another one, or lost its tail. Nothing more is written before a new list."""
        self._writer.reset()
        self.resets += 1
        metrics.RESETS.inc()
        self._halt()
        self._published.clear()
        self._outbox.clear()
        for source in self._sources:
            source.is_void = True
            source.listing = source.has_written = False
            source.through = source.published = source.older = 0

    def apply(self, entry: Entry) -> None:
        """Sink: what the bucket holds, our own writes included."""
        now = self._clock.monotonic()
        if not self._published.see(entry.key, entry.value, deleted=entry.deleted, now=now):
            self._log.warning("unreadable message in STATE, to be replaced", key=entry.key[:200])

    def end(self, sequence: int) -> None:
        """Sink: the end of the bucket."""

    def on_reset(self) -> None:
        """The new bucket was read to its end: everything has to be written again."""
        self._log.warning("STATE was deleted or lost its tail: listing everything again")
        self._published.adopt_markers()
        for source in self._sources:
            source.ask_for_list("state lost")

    def on_conflict(self, key: str) -> None:
        """Somebody else wrote this key; the view knows by now what stands there."""
        self.conflicts.add(key)
        self._outbox.some.set()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def run(self, owned: OwnedPort) -> None:
        """Write until cancelled."""
        while True:
            if not await self._comes(self._markers.next_s()):
                await self._markers.publish_idle(owned)
                continue
            began, before = self._clock.monotonic(), self._outbox.taken
            await self._one_batch(owned)
            # What comes next gathers meanwhile: a burst costs every follower one turn instead of one per object. On a
            # machine that is busy a batch takes long, and then fewer and larger ones are what helps it.
            took_s, crowded = self._clock.monotonic() - began, self._crowding.share()
            metrics.CROWDED.set(crowded)
            await self._clock.sleep(gather_s(took_s, self._outbox.taken - before, crowded))

    async def start(self, owned: OwnedPort) -> None:
        """Read what STATE holds; single objects that are not followed any more go, with what was proven of them."""
        await owned.ready()
        self._published.adopt_markers()
        followed = {source.scope.only_key for source in self._sources if source.scope.only_key}
        for key, known in list(self._published.keys("configmap").items()):
            if key not in followed:
                owned.delete(key, str(known.version).encode())
                self._published.delete(key, known.version, self._clock.monotonic())
        for marker in list(self._published.markers.values()):
            if marker.kind.startswith("configmap.") and marker.kind not in followed and marker.complete:
                unknown = Synced(kind=marker.kind, version=marker.version, complete=False)
                self._published.mark(unknown)
                owned.put(synced_key(marker.kind), encode(unknown))

    async def _one_batch(self, owned: OwnedPort) -> None:
        era, since = self._writer.era, self._outbox.since
        while len(self._writer) < BATCH_MAX:
            step = self._outbox.first()
            if step is None:
                break
            match step:
                case Put() | Gone():
                    if step.key in self._writer:
                        break  # its former write has to arrive first
                    self._outbox.take()
                    await self._write(owned, step)
                case Nothing(source, version):
                    self._outbox.take()
                    source.reached(version)
                case Began(source):
                    self._outbox.take()
                    source.listing, source.has_written = True, False
                    source.is_void = source.is_doubtful = False
                case Finished():
                    if self._writer:
                        break
                    self._outbox.take()
                    await self._finish(owned, step)
                case Reached(source, version):
                    if self._writer:
                        break
                    self._outbox.take()
                    source.reached(version)
                    if not source.listing and not source.is_doubtful:
                        await self._markers.write(owned, source, source.through, complete=True)
                case Absent(source):
                    if self._writer:
                        break
                    self._outbox.take()
                    await self._markers.absent(owned, source)
                case _:
                    assert_never(step)
            if era != self._writer.era:
                return
        self._outbox.again(await self._writer.settle(owned))
        if era == self._writer.era and not len(self._outbox):
            await self._markers.publish_idle(owned)
        metrics.LAG.observe(self._clock.monotonic() - since)
        metrics.WAITING.set(len(self._outbox))
        self._outbox.settled()
        if self.conflicts:
            self._outbox.some.set()

    async def _write(self, owned: OwnedPort, step: Put | Gone) -> None:
        source = step.source
        if source.is_void:
            return
        verdict = self._writer.judge(step)
        if verdict is Verdict.WRITE and source.listing and not source.has_written:
            if not await self._open_marker(owned, source) or source.is_void:
                return
            source.has_written = True
            # Somebody else may have written the key meanwhile, something newer, and the write would now expect that.
            verdict = self._writer.judge(step)
        source.writes[verdict.value].inc()
        if verdict is Verdict.WRITE:
            self._writer.send(owned, step)
        source.reached(step.version)

    # --- lists and markers --------------------------------------------------------------------------------------------

    async def _open_marker(self, owned: OwnedPort, source: Source) -> bool:
        """Say that the kind is not complete while its list is being written; False: somebody else is at it."""
        if self._markers.says_incomplete(source):
            return True
        era = self._writer.era
        self._outbox.again(await self._writer.settle(owned))
        return era == self._writer.era and await self._markers.open(owned, source)

    async def _finish(self, owned: OwnedPort, step: Finished) -> None:
        """The list is complete: what it does not name is gone."""
        source, era = step.source, self._writer.era
        kind = source.scope.kind
        listed = {kind.key_of_listed(each) for each in step.keys}
        shown = self._published.keys(kind.prefix)
        gone = [key for key in shown if key not in listed and source.scope.covers(key)]
        for start in range(0, len(gone) or 1, BATCH_MAX):
            for key in gone[start : start + BATCH_MAX]:
                await self._write(owned, Gone(source, key, step.version))
            again = await self._writer.settle(owned)
            if again:
                self._outbox.again([*again, step])
            if again or era != self._writer.era or source.is_doubtful:
                return
        source.listing = False
        # Not the highest that was seen: a list that was begun anew may come from an older state than the one before.
        source.through = step.version
        marker = self._published.markers.get(source.scope.marker)
        if marker is not None and step.version < marker.version:
            self._log.warning(
                "the API server shows an older state than STATE holds: listing again",
                kind=source.scope.name,
                listed=step.version,
                held=marker.version,
            )
            source.older += 1
            source.ask_for_list(OLDER)
            return
        source.older = 0
        if await self._markers.write(owned, source, step.version, complete=True) and not source.synced:
            source.synced = True
            self._log.info("synced", kind=source.scope.name, objects=len(listed), version=step.version)

    async def _comes(self, wait_s: float | None) -> bool:
        """Wait for steps; False: there were none for so long."""
        try:
            async with asyncio.timeout(wait_s):
                await self._outbox.some.wait()
        except TimeoutError:
            return False
        return True
