"""Objects on their way into STATE: one batch in flight, no key twice, each write judged against what stands there.

A write that was refused because somebody else wrote the key is judged again against what stands there now.
"""

from __future__ import annotations

import asyncio
from typing import Final

from berth.bus.port import Clock, OwnedPort
from berth.cluster_watcher.conflicts import Conflicts
from berth.cluster_watcher.core.published_view import PublishedView, Verdict
from berth.cluster_watcher.outbox import Gone, Put, Step
from berth.telemetry import Logger

STUCK_S: Final = 5.0
"""Longest time for a batch to be acknowledged."""


class StateDoubtfulError(Exception):
    """What STATE holds is not known any more: read it again, list again."""


class BatchWriter:
    """`era` counts how often STATE turned out to be another one: who awaited something compares it afterwards."""

    def __init__(self, published: PublishedView, conflicts: Conflicts, *, clock: Clock, log: Logger) -> None:
        self.era = 0
        self._published = published
        self._conflicts = conflicts
        self._clock = clock
        self._log = log
        self._batch: dict[str, Put | Gone] = {}

    def __len__(self) -> int:
        return len(self._batch)

    def __contains__(self, key: str) -> bool:
        return key in self._batch

    def reset(self) -> None:
        """STATE is another one: nothing that is in flight counts."""
        self.era += 1
        self._batch = {}
        self._conflicts.clear()

    def judge(self, step: Put | Gone) -> Verdict:
        """Whether the step needs a write, by what is known to stand there."""
        if isinstance(step, Put):
            return self._published.judge_put(step.key, step.version, hash(step.value))
        return self._published.judge_deletion(step.key, step.version)

    def send(self, owned: OwnedPort, step: Put | Gone) -> None:
        """Write; an object that the bus does not take is logged, and left out."""
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

    async def settle(self, owned: OwnedPort) -> list[Step]:
        """Wait until everything in flight has its outcome, and learn from it. Returns what has to be written again."""
        era = self.era
        await self.drained(owned)
        batch, self._batch = self._batch, {}
        refused = self._conflicts.take()
        if era != self.era:
            return []
        now = self._clock.monotonic()
        for key, step in batch.items():
            if key in refused:
                continue
            if isinstance(step, Put):
                self._published.put(key, step.version, hash(step.value))
            else:
                self._published.delete(key, step.version, now)
            if not step.source.listing:
                step.source.published = max(step.source.published, step.version)
        return self._judge_again(list(refused), batch) if refused else []

    def _judge_again(self, keys: list[str], batch: dict[str, Put | Gone]) -> list[Step]:
        again: list[Step] = []
        for key in keys:
            step = batch.get(key)
            if step is not None and self.judge(step) is Verdict.WRITE:
                again.append(step)
            elif step is None:
                self._conflicts.recheck(key)
        self._log.warning("somebody else writes STATE", keys=len(keys), again=len(again))
        return again

    async def drained(self, owned: OwnedPort) -> None:
        """Wait for every outcome. Raises StateDoubtfulError when none comes: the bucket may be another one by the
        time it does, and what waits would be written into it unseen."""
        try:
            async with asyncio.timeout(STUCK_S):
                await owned.drain()
        except TimeoutError as error:
            raise StateDoubtfulError(f"STATE acknowledged nothing for {STUCK_S:g} s") from error
