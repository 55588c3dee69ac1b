"""Steps from the watches become writes of STATE, in the API server's order.

A follower of STATE takes the highest version it has read for the version through which its view is complete. So what
is written of a kind must never overtake what comes before it:
- within a batch no key occurs twice, and the next batch begins when all of it is acknowledged (`drain`), so no write
  waits behind another and none is replaced by a newer one on its way;
- what a list brings comes in no order. A marker `complete: false` is acknowledged before the first write that a list
  needs, and a marker `complete: true` is written when the last of its writes is acknowledged;
- markers are always written alone, with nothing in flight. A kind that is not installed is complete without objects.

A key's version never goes down (`PublishedView`). A write that was refused because somebody else wrote the key is judged
again against what stands there now; what cannot be explained so leads to a new list of the kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, assert_never

from berth.bus.port import Clock, Entry, OwnedPort
from berth.cluster_watcher import metrics
from berth.cluster_watcher.core.published_view import SYNCED, PublishedView, Verdict
from berth.cluster_watcher.outbox import Absent, Began, Finished, Gone, Nothing, Outbox, Put, Reached, Step
from berth.cluster_watcher.source import OLDER, Source
from berth.contracts.codec import encode
from berth.contracts.state import Synced
from berth.contracts.subjects import synced_key
from berth.telemetry import Logger

BATCH_MAX: Final = 512
"""Writes in flight at once; the window of the bus holds as many."""
MARK_PAUSE_S: Final = 1.0
MARK_PAUSE_MIN_S: Final = 0.001
"""Between two markers of a kind that no bookmark asked for."""
GATHER_S: Final = 0.005
GATHER_PER_BATCH: Final = 2.0
GATHER_MAX_S: Final = 0.2
"""Pause after a batch: this many times what it took, within these bounds. What comes alone is never held up."""
STUCK_S: Final = 5.0
"""Longest time for a batch to be acknowledged."""
CONFLICT = "somebody else wrote STATE"


class StateDoubtfulError(Exception):
    """What STATE holds is not known any more: read it again, list again."""


class Publisher:
    """The only place from which STATE is written. Also the sink of its own bucket."""

    def __init__(
        self,
        sources: list[Source],
        outbox: Outbox,
        published: PublishedView,
        *,
        clock: Clock,
        log: Logger,
        halt: Callable[[], None],
    ) -> None:
        self.conflicts = 0
        self.resets = 0
        self._sources = sources
        self._outbox = outbox
        self._published = published
        self._clock = clock
        self._log = log
        self._halt = halt
        self._owned: OwnedPort | None = None
        self._era = 0
        self._batch: dict[str, Put | Gone] = {}
        self._conflicted: list[str] = []

    # --- what the bucket tells ----------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Sink: the bucket is another one, or lost its tail. Nothing more is written before a new list."""
        self._era += 1
        self.resets += 1
        metrics.RESETS.inc()
        self._halt()
        self._published.clear()
        self._outbox.clear()
        self._batch, self._conflicted = {}, []
        for source in self._sources:
            source.is_void = True
            source.listing = source.has_written = False
            source.through = source.told = source.older = 0

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
        """Somebody else wrote this key; the shelf knows by now what stands there."""
        self.conflicts += 1
        metrics.CONFLICTS.inc()
        self._conflicted.append(key)
        self._outbox.some.set()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def run(self, owned: OwnedPort) -> None:
        """Write until cancelled."""
        self._owned = owned
        while True:
            if not await self._comes(self._next_marker_s()):
                await self._publish_idle_markers(owned)
                continue
            began = self._clock.monotonic()
            await self._one_batch(owned)
            # What comes next gathers meanwhile: a burst costs every follower one turn instead of one per object. On a
            # machine that is busy a batch takes long, and then fewer and larger ones are what helps it.
            took_s = self._clock.monotonic() - began
            await self._clock.sleep(min(max(GATHER_S, GATHER_PER_BATCH * took_s), GATHER_MAX_S))

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
        era, since = self._era, self._outbox.since
        while len(self._batch) < BATCH_MAX:
            step = self._outbox.first()
            if step is None:
                break
            match step:
                case Put() | Gone():
                    if step.key in self._batch:
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
                    if self._batch:
                        break
                    self._outbox.take()
                    await self._finish(owned, step)
                case Reached(source, version):
                    if self._batch:
                        break
                    self._outbox.take()
                    source.reached(version)
                    if not source.listing and not source.is_doubtful:
                        await self._mark(owned, source, source.through, complete=True)
                case Absent(source):
                    if self._batch:
                        break
                    self._outbox.take()
                    await self._absent(owned, source)
                case _:
                    assert_never(step)
            if era != self._era:
                return
        self._outbox.again(await self._settle(owned))
        if era == self._era and not len(self._outbox):
            await self._publish_idle_markers(owned)
        metrics.LAG.observe(self._clock.monotonic() - since)
        metrics.WAITING.set(len(self._outbox))
        self._outbox.settled()
        if self._conflicted:
            self._outbox.some.set()

    async def _write(self, owned: OwnedPort, step: Put | Gone) -> None:
        source = step.source
        if source.is_void:
            return
        verdict = self._judge(step)
        if verdict is Verdict.WRITE and source.listing and not source.has_written:
            if not await self._open_marker(owned, source) or source.is_void:
                return
            source.has_written = True
            # Somebody else may have written the key meanwhile, something newer, and the write would now expect that.
            verdict = self._judge(step)
        source.writes[verdict.value].inc()
        if verdict is Verdict.WRITE:
            self._send(owned, step)
        source.reached(step.version)

    def _judge(self, step: Put | Gone) -> Verdict:
        if isinstance(step, Put):
            return self._published.judge_put(step.key, step.version, hash(step.value))
        return self._published.judge_deletion(step.key, step.version)

    def _send(self, owned: OwnedPort, step: Put | Gone) -> None:
        try:
            if isinstance(step, Put):
                owned.put(step.key, step.value, traceparent=step.traceparent)
            else:
                owned.delete(step.key, b"%d" % step.version)
        except ValueError as error:
            step.source.writes["refused"].inc()
            self._log.error("the bus does not take this object", key=step.key[:200], error=str(error)[:200])
            return
        self._batch[step.key] = step

    async def _settle(self, owned: OwnedPort) -> list[Step]:
        """Wait until everything in flight has its outcome, and learn from it. Returns what has to be written again."""
        era = self._era
        await self._drained(owned)
        batch, self._batch = self._batch, {}
        conflicted, self._conflicted = self._conflicted, []
        if era != self._era:
            return []
        lost = dict.fromkeys(conflicted)
        now = self._clock.monotonic()
        for key, step in batch.items():
            if key in lost:
                continue
            if isinstance(step, Put):
                self._published.put(key, step.version, hash(step.value))
            else:
                self._published.delete(key, step.version, now)
            if not step.source.listing:
                step.source.told = max(step.source.told, step.version)
        return self._judge_again(list(lost), batch) if lost else []

    def _judge_again(self, keys: list[str], batch: dict[str, Put | Gone]) -> list[Step]:
        again: list[Step] = []
        for key in keys:
            step = batch.get(key)
            if step is not None and self._judge(step) is Verdict.WRITE:
                again.append(step)
            elif step is None:
                self._recheck_foreign_write(key)
        self._log.warning("somebody else writes STATE", keys=len(keys), again=len(again))
        return again

    def _recheck_foreign_write(self, key: str) -> None:
        """Somebody wrote a key that we did not touch: fine if they are ahead of us, else only a list can tell."""
        kind, _, rest = key.partition(".")
        for source in self._sources:
            if kind == SYNCED:
                if source.scope.marker == rest:
                    self._published.adopt_markers()
                    source.ask_for_list(CONFLICT)
            elif (
                source.scope.kind.prefix == kind
                and source.scope.covers(key)
                and self._published.version(key) <= source.through
            ):
                self._published.doubt(key)
                source.ask_for_list(CONFLICT)

    async def _drained(self, owned: OwnedPort) -> None:
        """Wait for every outcome. Raises StateDoubtfulError when none comes: the bucket may be another one by the
        time it does, and what waits would be written into it unseen."""
        try:
            async with asyncio.timeout(STUCK_S):
                await owned.drain()
        except TimeoutError as error:
            raise StateDoubtfulError(f"STATE acknowledged nothing for {STUCK_S:g} s") from error

    # --- lists and markers --------------------------------------------------------------------------------------------

    async def _open_marker(self, owned: OwnedPort, source: Source) -> bool:
        """Say that the kind is not complete while its list is being written; False: somebody else is at it."""
        marker = self._published.markers.get(source.scope.marker)
        if not source.scope.marker or (marker is not None and not marker.complete):
            return True
        era = self._era
        self._outbox.again(await self._settle(owned))
        if era != self._era:
            return False
        return await self._mark(owned, source, 0 if marker is None else marker.version, complete=False)

    async def _finish(self, owned: OwnedPort, step: Finished) -> None:
        """The list is complete: what it does not name is gone."""
        source, era = step.source, self._era
        kind = source.scope.kind
        listed = {kind.key_of_listed(each) for each in step.keys}
        shown = self._published.keys(kind.prefix)
        gone = [key for key in shown if key not in listed and source.scope.covers(key)]
        for start in range(0, len(gone) or 1, BATCH_MAX):
            for key in gone[start : start + BATCH_MAX]:
                await self._write(owned, Gone(source, key, step.version))
            again = await self._settle(owned)
            if again:
                self._outbox.again([*again, step])
            if again or era != self._era or source.is_doubtful:
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
        if await self._mark(owned, source, step.version, complete=True) and not source.synced:
            source.synced = True
            self._log.info("synced", kind=source.scope.name, objects=len(listed), version=step.version)

    async def _absent(self, owned: OwnedPort, source: Source) -> None:
        """Others wait for this kind: tell them that there is nothing of it. What is known of it is never withdrawn so:
        a kind that vanishes while it has objects is for people to look at."""
        if not self._published.keys(source.scope.kind.prefix):
            marker = self._published.markers.get(source.scope.marker)
            await self._mark(owned, source, 0 if marker is None else marker.version, complete=True)

    async def _comes(self, wait_s: float | None) -> bool:
        """Wait for steps; False: there were none for so long."""
        try:
            async with asyncio.timeout(wait_s):
                await self._outbox.some.wait()
        except TimeoutError:
            return False
        return True

    def _quiet(self) -> list[Source]:
        """Whose version moved on without a write. Only a marker tells that."""
        return [
            source
            for source in self._sources
            if source.synced and not source.listing and not source.is_doubtful and source.through > source.told
        ]

    def _next_marker_s(self) -> float | None:
        """Seconds until the next marker that no step will bring; None: none is owed."""
        due = min((source.marked_at for source in self._quiet()), default=None)
        return None if due is None else max(due + MARK_PAUSE_S - self._clock.monotonic(), MARK_PAUSE_MIN_S)

    async def _publish_idle_markers(self, owned: OwnedPort) -> None:
        now = self._clock.monotonic()
        for source in self._quiet():
            if source.marked_at + MARK_PAUSE_S <= now:
                source.marked_at = now
                await self._mark(owned, source, source.through, complete=True)

    async def _mark(self, owned: OwnedPort, source: Source, version: int, *, complete: bool) -> bool:
        """Write the marker of a kind, with nothing else in flight. False: somebody else wrote it, or STATE was lost."""
        kind = source.scope.marker
        if not kind or source.is_void:
            return not source.is_void
        known = self._published.markers.get(kind)
        marker = Synced(kind=kind, version=version, complete=complete)
        if known is not None and (known == marker or known.version > version):
            if known.complete:
                source.told = max(source.told, known.version)
            return known.complete == complete
        era, key = self._era, synced_key(kind)
        if self._is_overtaken(key):
            return False
        self._published.mark(marker)
        owned.put(key, encode(marker))
        await self._drained(owned)
        if era != self._era or self._is_overtaken(key):
            return False
        source.marked_at = self._clock.monotonic()
        if complete:
            source.told = max(source.told, version)
        return True

    def _is_overtaken(self, key: str) -> bool:
        """Somebody else has written this marker, and a list is asked for: what we would say is not known to be so."""
        if key not in self._conflicted:
            return False
        self._conflicted = [each for each in self._conflicted if each != key]
        self._recheck_foreign_write(key)
        return True
