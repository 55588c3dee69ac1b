"""What the auditor has said, and should not have: it sees everything late, and must not take that for a difference.

What it says is about the time of its look, which takes a while: a difference may be over when it is told. What two
looks have in common was there when the second one began, so it counts as one if it was one then or is one now.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tests.simulation.harness import Harness
from tests.simulation.laws import Pardon
from tests.simulation.services import AUDITOR

from berth.auditor.core.quota_drift import drifted
from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.event import AuditReported
from berth.invariants import INVARIANTS, World
from berth.invariants.facts import Facts
from berth.kube import Kube, KubeSettings, Selection, resources
from berth.kube.answer import Answer
from berth.runtime.clock import Clock
from berth.testing.simulation.nats.stream import Stream
from berth.testing.simulation.process import Process

UNDONE_S: Final = 60.0
"""How long a decision may stay undone before the auditor says so."""
CALM_S: Final = 30.0
"""In so long without trouble a decision is carried out."""
FOUND: Final = ".audit.reported.found."
LOOKS_KEPT: Final = 8
"""An event may wait for the bus while the auditor looks again."""


class Look(NamedTuple):
    """What truly was when a look began. `began_ms` is by the auditor's clock, as `at_ms` of its events is."""

    began_ms: int
    world: World
    garbled: frozenset[str]
    """Keys of LEDGER that nobody can read."""


class Alarms:
    """Every difference that is raised, against what is. Made before anything happens."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._untrue: list[tuple[float, AuditReported]] = []
        self._looks: deque[Look] = deque(maxlen=LOOKS_KEPT)
        self._connect_kube = harness.host.connect_kube
        harness.host.connect_kube = self._connecting  # type: ignore[method-assign]
        self._add_stream = harness.nats.add_stream
        harness.nats.add_stream = self._added  # type: ignore[method-assign]

    def untrue(self, troubles: Iterable[tuple[float, float]]) -> list[str]:
        """Differences that were none.

        A decision may stay undone (I4) until it has had its time without trouble.
        """
        spans = sorted(troubles)
        found = []
        for at_s, said in self._untrue:
            if said.promise == "I4" and _calm_s(spans, at_s - UNDONE_S, at_s) < CALM_S:
                self._harness.observer.verdicts.excused("alarms", Pardon.TROUBLE)
            else:
                found.append(f"{said.promise} {said.subject} at {at_s:.1f} s: {said.evidence}")
        return found

    def watch(self, stream: Stream) -> None:
        """Hear what this stream stores of the auditor."""
        tell = stream.tell

        def heard(stored: Iterable[Any]) -> None:
            stored = list(stored)
            for each in stored:
                if FOUND in each.subject:
                    self.hear(decode(each.data, AuditReported))
            tell(stored)

        stream.tell = heard  # type: ignore[method-assign]

    def begins(self, began_ms: int) -> None:
        """The auditor begins to look, now."""
        self._harness.observer.verdicts.judged("alarms")  # each look may raise a false one
        self._looks.append(self._look(began_ms))

    def hear(self, said: AuditReported) -> None:
        """The auditor has found a difference, now."""
        began = [look for look in self._looks if look.began_ms <= said.at_ms][-1:]
        if not any(_shows(look, said) for look in (self._look(said.at_ms), *began)):
            self._untrue.append((self._harness.world.now, said))

    def _look(self, began_ms: int) -> Look:
        """What is now."""
        return Look(began_ms, self._world(), frozenset(self._harness.nats.garbled()))

    def _world(self) -> World:
        """This moment, to be kept. A gang caught by a loss may be half there for long, and is a difference."""
        observer = self._harness.observer
        world = observer.world()
        ledger = copy.copy(world.ledger)
        ledger.decisions, ledger.plans = dict(ledger.decisions), dict(ledger.plans)
        return replace(world, ledger=ledger, excused_gangs=frozenset(observer.gangs.excused - observer.gangs.caught))

    def _connecting(self, process: Process) -> Callable[[KubeSettings, Clock], Awaitable[Kube]]:
        connect = self._connect_kube(process)

        async def connected(settings: KubeSettings, clock: Clock) -> Kube:
            kube = await connect(settings, clock)
            page = kube.page

            async def seen(selection: Selection, *, limit: int, token: str = "") -> Answer:
                if selection.resource is resources.PODS and not token:  # the first page of a look
                    self.begins(int(process.clock.now() * 1000))
                return await page(selection, limit=limit, token=token)

            kube.page = seen  # type: ignore[method-assign]
            return kube

        is_auditor = any(replica.process is process for replica in self._harness.host.of(AUDITOR))
        return connected if is_auditor else connect

    def _added(self, stream: Stream) -> None:
        self._add_stream(stream)
        if stream.name == buckets.EVENTS:
            self.watch(stream)


def _calm_s(troubles: Iterable[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """How long between two moments there was no trouble. `troubles`: in order of their beginnings."""
    calm_s, at_s = 0.0, begin_s
    for begins_s, ends_s in troubles:
        calm_s += max(0.0, min(begins_s, end_s) - at_s)
        at_s = max(at_s, ends_s)
    return calm_s + max(0.0, end_s - at_s)


def _shows(look: Look, said: AuditReported) -> bool:
    """Whether this moment breaks the promise in that way."""
    world = look.world
    if said.promise == "I41":
        return True  # compared with what was missed at the end (`webhooks`)
    if said.promise == "I0":
        return said.subject.removeprefix("ledger key ") in look.garbled
    if said.promise == "I8":
        facts = Facts.of(world)
        return any(finding.subject == said.subject for finding in drifted(facts, facts))
    facts = Facts.of(replace(world, is_quiet=said.promise == "I3"))
    finders = (each.find for each in INVARIANTS if each.name == said.promise)
    return any(finding.subject == said.subject for find in finders for finding in find(facts))
