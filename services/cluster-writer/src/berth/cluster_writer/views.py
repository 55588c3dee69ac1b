"""What the buckets show: STATE and LEDGER into the view, and a wake-up for what waits for the change."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from berth.bus.port import Entry
from berth.cluster_writer import metrics
from berth.cluster_writer.cluster_view import ClusterView
from berth.contracts import buckets
from berth.contracts.errors import InvalidMessage

PARKED_EVERY = 64
"""Under load the end of STATE is not reached for a while: look at what waits for the view every so many messages."""


class Binds(Protocol):
    """What waits for STATE to show something of a pod."""

    def moved(self, name: tuple[str, str] | None) -> None:
        """Something has changed of this pod; None: look at all that wait."""

    def has_parked(self) -> bool:
        """Somebody waits."""

    def at_end(self) -> None:
        """STATE was read to its end."""


class Waves(Protocol):
    """What begins plans."""

    state_ready: asyncio.Event
    ledger_ready: asyncio.Event
    wake: asyncio.Event

    def plan_read(self, plan: str) -> None:
        """Something of this plan was read."""

    def check_again(self) -> None:
        """LEDGER has to be compared with the Lease."""


class Evictions(Protocol):
    """What judges nominations on the view."""

    def moved(self) -> None:
        """Something has changed."""

    def at_end(self) -> None:
        """STATE was read to its end."""


class StateSink:
    """STATE into the view."""

    def __init__(self, cluster: ClusterView, binds: Binds, evictions: Evictions, wave_runner: Waves, log: Any) -> None:
        self._cluster, self._binds, self._evictions = cluster, binds, evictions
        self._wave_runner, self._log = wave_runner, log

    def reset(self) -> None:
        """STATE starts over."""
        self._cluster.reset_state()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            name = self._cluster.read_state(entry.key, entry.value, deleted=entry.deleted, gap=entry.gap)
        except (InvalidMessage, ValueError) as error:
            metrics.BROKEN_MESSAGES.labels(buckets.STATE).inc()
            self._log.warning("a message cannot be read and is left out", key=entry.key, error=str(error))
            return
        if name is not None:
            self._binds.moved(name)
            self._evictions.moved()
        if self._binds.has_parked() and entry.sequence % PARKED_EVERY == 0:
            self._binds.moved(None)

    def end(self, sequence: int) -> None:
        """The end was reached."""
        self._cluster.end_of_state()
        self._binds.at_end()
        self._evictions.at_end()
        self._wave_runner.state_ready.set()
        self._wave_runner.wake.set()


class LedgerSink:
    """LEDGER into the view."""

    def __init__(self, cluster: ClusterView, wave_runner: Waves, log: Any) -> None:
        self._cluster, self._wave_runner, self._log = cluster, wave_runner, log

    def reset(self) -> None:
        """LEDGER starts over: what it held has to be compared with the Lease again."""
        self._cluster.book.reset_ledger()
        self._wave_runner.check_again()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            plan = self._cluster.read_ledger(entry.key, entry.value, entry.deleted, entry.sequence)
            if plan:
                self._wave_runner.plan_read(plan)
        except (InvalidMessage, ValueError) as error:
            metrics.BROKEN_MESSAGES.labels(buckets.LEDGER).inc()
            self._log.error("an entry of the ledger cannot be read", key=entry.key, error=str(error))
        self._wave_runner.wake.set()

    def end(self, sequence: int) -> None:
        """The end was reached."""
        self._wave_runner.ledger_ready.set()
        self._wave_runner.wake.set()
