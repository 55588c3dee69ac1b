"""The wiring of the auditor, and when it looks.

It writes events and nothing else: it repairs nothing, and nobody decides by what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from berth.auditor.core.book import AUDITED
from berth.auditor.core.steps import Steps
from berth.auditor.lists import IncompleteError, Lister
from berth.auditor.reconciler import Reconciler
from berth.auditor.settings import SERVICE, Settings
from berth.auditor.views import LedgerView, RulesView
from berth.contracts import buckets, subjects
from berth.contracts.event import AuditReported
from berth.invariants.payers import RULES_KEY
from berth.kube import KubeApi
from berth.runtime import Context, Event, Input, Replica
from berth.telemetry import counter, gauge, histogram

LEDGER_WAIT_S: Final = 10.0
"""How long a look waits for the ledger's end; the follower reaches it every second while the bus is there."""
CALM_S: Final = 1.0
BUSY_MESSAGES: Final = 40
"""So many messages of the ledger in `CALM_S` say that pods are being placed in numbers: a look costs those who place
them, and what it saw in the middle of that would have to be looked at again."""

T = TypeVar("T")
DIFFERENCES = gauge("berth_auditor_differences", "Differences there are now, certain ones only.", ["promise"])
REPORTED = counter("berth_auditor_reported_total", "Differences that were reported.", ["promise", "verb"])
LOOKS = counter("berth_auditor_looks_total", "Looks at ledger, cluster and nodes.", ["outcome"])
LOOKING = histogram("berth_auditor_look_seconds", "Time of one look, the lists included.")
LAST_LOOK = gauge("berth_auditor_last_look_seconds", "Unix time of the last complete look; 0 before the first.")


class Shell(Replica[Settings]):
    """One replica."""

    def __init__(self, context: Context[Settings], api: KubeApi) -> None:
        settings = context.settings
        self._at_end = asyncio.Event()
        self.ledger = LedgerView(self._at_end.set)
        self.rules = RulesView()
        inputs = [Input(buckets.LEDGER, self.ledger, subjects.COUNTED), Input(buckets.QUOTA, self.rules, RULES_KEY)]
        super().__init__(SERVICE, context, inputs=inputs, lease_ttl_s=settings.lease_ttl_s)
        schedulers = frozenset(settings.scheduler_names)
        self.reconciler = Reconciler(schedulers=schedulers, settle_s=settings.audit_settle_s)
        self.lister = Lister(
            api,
            schedulers=schedulers,
            page=settings.list_page,
            objects_max=settings.audit_objects_max,
            rest=lambda: context.clock.sleep(0),
        )
        for promise in AUDITED:
            DIFFERENCES.labels(promise).set(0)
        self._trouble = "no look yet"
        self._last_s = 0.0
        self._took_s = 0.0

    @property
    def is_ready(self) -> bool:
        """See `Replica`."""
        return self.ledger.is_known and self.rules.is_known

    @property
    def missing(self) -> str:
        """See `Replica`."""
        return "read" if self.is_ready else "reading"

    @property
    def facts(self) -> dict[str, str | int | float]:
        """See `Replica`."""
        known = self.reconciler.book.known
        return {
            "differences": len(known) + self.reconciler.book.beyond,
            "about": ", ".join(sorted({promise for promise, _ in known})) or "none",
            "complete looks": self.reconciler.looks,
            "last look_at": self._last_s or "",
            "trouble": self._trouble or "none",
            "decisions and plans": len(self.ledger.live),
        }

    def announce(self, event: Event) -> None:
        """See `Replica`."""
        if isinstance(event.message, AuditReported):
            REPORTED.labels(event.message.promise, "found" if event.message.lasts else "gone").inc()
        super().announce(event)

    async def work(self) -> None:
        """Look again and again."""
        context, settings = self.context, self.context.settings
        context.log.info("active: comparing ledger, cluster and nodes")
        while True:
            await self._until_calm()
            await self.look()
            if self.reconciler.wants_another:
                pause_s = max(settings.audit_confirm_s, self._took_s)
            else:
                pause_s = max(settings.audit_interval_s, self._took_s * (1 / settings.audit_share - 1))
            await context.clock.sleep(pause_s)

    async def _until_calm(self) -> None:
        clock = self.context.clock
        until = clock.monotonic() + self.context.settings.audit_patience_s
        while clock.monotonic() < until:
            before = self.ledger.read
            await clock.sleep(CALM_S)
            if self.ledger.read - before < BUSY_MESSAGES:
                return

    async def look(self) -> None:
        """One look. One that is not complete changes nothing."""
        clock = self.context.clock
        with LOOKING.time():
            self._at_end.clear()
            began = clock.monotonic()
            try:
                lists = await self.lister.all()
                self._took_s = clock.monotonic() - began
                async with asyncio.timeout(LEDGER_WAIT_S):
                    # What the ledger shows at an end that came after the look began is not older than the look.
                    await self._at_end.wait()
                    while not self.ledger.is_known:  # it may begin anew between an end and our turn
                        self._at_end.clear()
                        await self._at_end.wait()
            except (IncompleteError, TimeoutError) as error:
                self._incomplete(str(error) or "the end of the ledger is not reached")
                return
            began = clock.monotonic()
            looking = self.reconciler.looking(lists, self.ledger.copy(), clock.now(), self.rules.rules)
            events = await _with_rests(looking, lambda: clock.sleep(0))
            self._took_s += clock.monotonic() - began
        LOOKS.labels("complete").inc()
        self._trouble = ""
        self._last_s = clock.now()
        LAST_LOOK.set(self._last_s)
        for event in events:
            self.announce(event)
        for promise, count in self.reconciler.book.counts().items():
            DIFFERENCES.labels(promise).set(count)

    def _incomplete(self, reason: str) -> None:
        LOOKS.labels("incomplete").inc()
        if reason != self._trouble:
            self.context.log.warning("cannot look at everything, trying again", reason=reason)
        self._trouble = reason


async def _with_rests(steps: Steps[T], rest: Callable[[], Awaitable[None]]) -> T:
    """What the work comes to; others get their turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result
        await rest()


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    kube = await context.kube_patiently(context.settings.kube())
    try:
        await Shell(context, kube).run()
    finally:
        await kube.close()
