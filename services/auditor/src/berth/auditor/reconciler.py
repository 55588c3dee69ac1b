"""From what a look saw to what has to be announced. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from berth.auditor.core.book import PROFILES, Book, Difference
from berth.auditor.core.confirm import confirmed
from berth.auditor.core.gangs import GangMemory
from berth.auditor.core.leftovers import left_behind
from berth.auditor.core.objects import Lists
from berth.auditor.core.quota_drift import drifted
from berth.auditor.core.reports import holds_of
from berth.auditor.core.steps import Steps
from berth.auditor.core.unprofiled import Unprofiled
from berth.auditor.settings import SERVICE
from berth.contracts.event import AuditReported
from berth.contracts.quota import QuotaRules
from berth.contracts.subjects import event_subject
from berth.invariants import INVARIANTS, Finding, World
from berth.invariants.facts import Facts
from berth.runtime import Event

TEXT_MAX = 2000
Told: TypeAlias = tuple[str, Finding]
"""A finding, and the promise that it breaks."""
DEFAULTS = QuotaRules()


class Reconciler:
    """Judges look after look."""

    def __init__(self, *, schedulers: frozenset[str], settle_s: float) -> None:
        self.book = Book(settle_s)
        self.looks = 0
        self._schedulers = schedulers
        self._gangs = GangMemory()
        self._before: World | None = None
        self._unprofiled = Unprofiled()
        self._missed: frozenset[str] = frozenset()

    @property
    def wants_another(self) -> bool:
        """Something was seen once that a second look would make certain."""
        return self.book.doubts()

    def looking(
        self, lists: Lists, ledger: Mapping[str, tuple[int, bytes]], now_s: float, rules: QuotaRules = DEFAULTS
    ) -> Steps[list[Event]]:
        """A complete look at everything; what it brings to light. `now_s` is unix time; `rules`: of quotas."""
        self._gangs.look(lists.pods, lists.pod_groups, self._schedulers, lists.reservations)
        world = World.of(
            pods=lists.pods,
            nodes=lists.nodes,
            devices=lists.devices,
            topologies=lists.topologies,
            quotas=lists.quotas,
            pod_groups=lists.pod_groups,
            reservations=lists.reservations,
            ledger=ledger,
            holds=holds_of(lists.metrics, lists.pods),
            schedulers=self._schedulers,
            excused_gangs=self._gangs.excused,
            quota_rules=rules,
        )
        world.unreadable.extend(lists.unreadable)
        before = self._before
        yield
        facts = yield from _joined(world)
        shown = yield from _findings(facts)
        shown += _drift(facts, facts)
        certain: list[Told] = []
        if shown and before is not None:
            certain += yield from _findings((yield from _joined(confirmed(before, world))))
            certain += _drift((yield from _joined(before)), facts)
        yield
        missed = yield from self._unprofiled.looking(lists)
        certain += [(PROFILES, finding) for finding in missed if finding.subject in self._missed]
        shown += [(PROFILES, finding) for finding in missed]
        self._missed = frozenset(finding.subject for finding in missed)
        self._before = world if shown else None
        self.looks += 1
        news = self.book.settle(shown, certain, now_s)
        found = [_announce("found", difference, now_s) for difference in news.found]
        return found + [_announce("gone", difference, now_s) for difference in news.gone]


def _joined(world: World) -> Steps[Facts]:
    facts = Facts(world)
    yield from facts.join()
    return facts


def _findings(facts: Facts) -> Steps[list[Told]]:
    found: list[Told] = []
    for invariant in INVARIANTS:
        yield
        found += ((invariant.name, finding) for finding in invariant.find(facts))
    yield
    found += (("I4", finding) for finding in left_behind(facts.world))
    return found


def _drift(first: Facts, second: Facts) -> Iterator[Told]:
    for finding in drifted(first, second):
        yield "I8", finding


def _announce(verb: str, difference: Difference, now_s: float) -> Event:
    """The id is the same, whichever replica publishes it."""
    since_ms = int(difference.since_s * 1000)
    event = AuditReported(
        promise=difference.promise,
        title=difference.title,
        subject=difference.subject[:TEXT_MAX],
        evidence=difference.text[:TEXT_MAX],
        lasts=verb == "found",
        since_ms=since_ms,
        at_ms=int(now_s * 1000),
    )
    return Event(
        event_subject("audit", "reported", verb, difference.promise, difference.id),
        event,
        id=f"{SERVICE}.{verb}.{difference.promise}.{difference.id}.{since_ms}",
        level="error" if event.lasts else "info",
        text=f"difference {verb}",
        fields={
            "promise": f"{difference.promise} {difference.title}",
            "subject": difference.subject[:500],
            "evidence": difference.text[:2000],
        },
    )
