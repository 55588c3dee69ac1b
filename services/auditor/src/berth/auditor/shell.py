"""Bus and API in, events out: a follower keeps the ledger, one loop looks at everything again and again.

Only the holder of the lease looks; a standby keeps its connections and the ledger. The auditor writes events and
nothing else: it repairs nothing, and nobody decides by what it says.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from berth.auditor.core.book import AUDITED
from berth.auditor.handlers import Announcement, Desk
from berth.auditor.lists import IncompleteError, Lister
from berth.auditor.settings import Settings
from berth.auditor.views import LedgerShelf
from berth.contracts import buckets, subjects
from berth.contracts.codec import encode
from berth.contracts.question import StatusAnswer
from berth.kube import KubeApi
from berth.runtime import ActiveStandby, Context
from berth.telemetry import counter, gauge, histogram

SERVICE: Final = "auditor"
LEDGER_WAIT_S: Final = 10.0
"""How long a look waits for the ledger's end; the follower reaches it every second while the bus is there."""
CALM_S: Final = 1.0
BUSY_MESSAGES: Final = 40
"""So many messages of the ledger in `CALM_S` say that pods are being placed in numbers: a look costs those who place
them, and what it saw in the middle of that would have to be looked at again."""

DIFFERENCES = gauge("berth_auditor_differences", "Differences there are now, certain ones only.", ["promise"])
TOLD = counter("berth_auditor_told_total", "Differences that were told.", ["promise", "verb"])
LOOKS = counter("berth_auditor_looks_total", "Looks at ledger, cluster and nodes.", ["outcome"])
LOOKING = histogram("berth_auditor_look_seconds", "Time of one look, the lists included.")
LAST_LOOK = gauge("berth_auditor_last_look_seconds", "Unix time of the last complete look; 0 before the first.")


class Shell:
    """The parts of one replica and how they are wired."""

    def __init__(self, context: Context[Settings], api: KubeApi) -> None:
        settings = context.settings
        self.context = context
        self._at_end = asyncio.Event()
        self.shelf = LedgerShelf(self._at_end)
        schedulers = frozenset(settings.scheduler_names)
        self.desk = Desk(schedulers=schedulers, settle_s=settings.audit_settle_s)
        self.lister = Lister(
            api,
            schedulers=schedulers,
            page=settings.list_page,
            objects_max=settings.audit_objects_max,
            rest=lambda: context.clock.sleep(0),
        )
        self.standby = ActiveStandby(context.bus, SERVICE, context.instance, ttl_s=settings.lease_ttl_s)
        self._trouble = "no look yet"
        self._last_s = 0.0
        self._took_s = 0.0

    async def run(self) -> None:
        """Start everything and work until cancelled."""
        context = self.context
        context.health.add("ledger", lambda: (self.shelf.is_known, "read" if self.shelf.is_known else "reading"))
        context.health.add("lease", self.standby.check)
        follower = context.bus.follow(buckets.LEDGER, self.shelf, keys=subjects.DECISIONS_AND_PLANS)
        context.spawn(follower.run(), name="follow-ledger")
        for promise in AUDITED:
            DIFFERENCES.labels(promise).set(0)
        await context.bus.serve(SERVICE, _version(), {"status": self._status})
        await self.standby.run(self._work)

    async def _work(self) -> None:
        """Look for as long as this replica is the active one."""
        context, settings = self.context, self.context.settings
        context.log.info("active: comparing ledger, cluster and nodes")
        while True:
            await self._until_calm()
            await self.look()
            if self.desk.wants_another:
                pause_s = max(settings.audit_confirm_s, self._took_s)
            else:
                pause_s = max(settings.audit_interval_s, self._took_s * (1 / settings.audit_share - 1))
            await context.clock.sleep(pause_s)

    async def _until_calm(self) -> None:
        clock = self.context.clock
        until = clock.monotonic() + self.context.settings.audit_patience_s
        while clock.monotonic() < until:
            before = self.shelf.read
            await clock.sleep(CALM_S)
            if self.shelf.read - before < BUSY_MESSAGES:
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
                    while not self._at_end.is_set():  # it may begin anew between an end and our turn
                        await self._at_end.wait()
            except (IncompleteError, TimeoutError) as error:
                self._incomplete(str(error) or "the end of the ledger is not reached")
                return
            began = clock.monotonic()
            told = self.desk.look(lists, self.shelf.copy(), clock.now())
            self._took_s += clock.monotonic() - began
        LOOKS.labels("complete").inc()
        self._trouble = ""
        self._last_s = clock.now()
        LAST_LOOK.set(self._last_s)
        for announcement in told:
            self._tell(announcement)
        for promise, count in self.desk.book.counts().items():
            DIFFERENCES.labels(promise).set(count)

    def _incomplete(self, reason: str) -> None:
        LOOKS.labels("incomplete").inc()
        if reason != self._trouble:
            self.context.log.warning("cannot look at everything, trying again", reason=reason)
        self._trouble = reason

    def _tell(self, announcement: Announcement) -> None:
        difference = announcement.difference
        TOLD.labels(difference.promise, announcement.verb).inc()
        say = self.context.log.error if announcement.verb == "found" else self.context.log.info
        say(
            f"difference {announcement.verb}",
            promise=f"{difference.promise} {difference.title}",
            subject=difference.subject[:500],
            evidence=difference.text[:2000],
        )
        self.context.bus.events().offer(
            announcement.subject, announcement.payload, id=announcement.id, type="audit.reported.v1"
        )

    async def _status(self, question: bytes) -> bytes:
        known = self.desk.book.known
        return encode(
            StatusAnswer(
                service=SERVICE,
                instance=self.context.instance,
                active=self.standby.active,
                ready=self.shelf.is_known,
                facts={
                    "differences": len(known) + self.desk.book.beyond,
                    "about": ", ".join(sorted({promise for promise, _ in known})) or "none",
                    "complete looks": self.desk.looks,
                    "last look_at": self._last_s or "",
                    "trouble": self._trouble or "none",
                    "decisions and plans": len(self.shelf.live),
                },
            )
        )


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    kube = await context.kube_patiently(context.settings.kube())
    try:
        await Shell(context, kube).run()
    finally:
        await kube.close()


def _version() -> str:
    try:
        return version(f"berth-{SERVICE}")
    except PackageNotFoundError:
        return "0.0.0"
