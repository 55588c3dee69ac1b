"""Reasons in words for those whom a round has refused, and what would help: afterwards, once for all who are alike.

A round only notes that no node takes a pod. Here it is tried once more with words, and explained
(`core.explanation`), in slices between which everything else goes on. Where the cluster changes between two slices the
explanation begins anew, a few times; then the words go out without it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from berth.bus.port import Clock
from berth.contracts.base import Reason
from berth.contracts.explanation import Explanation
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.explain import is_untold
from berth.placement_solver.core.explanation.explaining import Steps, explain
from berth.placement_solver.core.explanation.proving import Leaving, Means
from berth.placement_solver.core.plan import Refusal, Unit
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.mishaps import told
from berth.transaction.claims import Name

TOLD_MAX: Final = 64
"""Of those who are alike so many are told at one look: each costs a command and an event."""
SLICE_S: Final = 0.004
BEGINS_MAX: Final = 3
PLAN: Final = "explain"

Evicts: TypeAlias = "Callable[[Unit], Leaving | None]"


class _Open(NamedTuple):
    """One that was refused in `unit`, and what else is to be said."""

    waiting: Waiting
    unit: Unit
    refusal: Refusal


@dataclass(eq=False)
class _Work:
    """Those who are alike and whose turn it is, with how far that is."""

    key: object
    first: _Open
    reasons: dict[Name, tuple[Reason, ...]]
    steps: Steps
    at: tuple[int, ...]
    begun: int = 1


def means_of(cluster: ClusterView, evicts: Evicts = lambda unit: None) -> Means:
    """What explanations of this view are worked out with."""
    return Means(cluster.solver, cluster.classes, cluster.book, cluster.charged, cluster.gangs, evicts)


class Explaining:
    """Those who wait for words, oldest first. `wanted` is set while there are any."""

    def __init__(self, cluster: ClusterView, publisher: EventPublisher, clock: Clock, evicts: Evicts) -> None:
        self.wanted = asyncio.Event()
        self._cluster = cluster
        self._publisher = publisher
        self._clock = clock
        self._means = means_of(cluster, evicts)
        self._open: OrderedDict[object, dict[Name, _Open]] = OrderedDict()
        self._work: _Work | None = None
        self._known: tuple[object, tuple[int, ...], dict[Name, tuple[Reason, ...]], Explanation | None] | None = None

    def put(self, waiting: Waiting, unit: Unit, refusal: Refusal) -> None:
        """It was refused, and has not been told yet."""
        key = unit.id if unit.needed else self._cluster.twin_of(waiting) or waiting.name
        self._open.setdefault(key, {})[waiting.name] = _Open(waiting, unit, refusal)
        self.wanted.set()

    async def look(self) -> bool:
        """A slice of work; False when nobody waits for words."""
        if self._work is None:
            self._work = self._next()
        work = self._work
        if work is not None:
            is_known, explanation = self._go_on(work)
            if is_known:
                self._work = None
                await self._tell(work, explanation)
        if not self._open:
            self.wanted.clear()
        return bool(self._open)

    async def tell_of(self, name: Name) -> None:
        """Somebody asks about this one: it comes before the others."""
        key = next((key for key, members in self._open.items() if name in members), None)
        if key is None:
            return
        each = self._open[key][name]
        if not each.unit.needed:  # not with all who are like it
            del self._open[key][name]
            key = name
            self._open[key] = {name: each}
        self._open.move_to_end(key, last=False)
        self._work = None
        while name in self._open.get(key, ()):
            await self.look()

    @property
    def _at(self) -> tuple[int, ...]:
        """Another one when the cluster has changed; also after each try of our own."""
        cluster = self._cluster
        nodes, network, released = cluster.nodes, cluster.network.version, cluster.capacity.released
        return nodes.touched.end, nodes.reshaped.end, cluster.quotas.version, network, released

    def _next(self) -> _Work | None:
        """The next of those who wait for words."""
        while self._open:
            key, members = next(iter(self._open.items()))
            for name in [name for name, each in members.items() if not self._still(each)]:
                del members[name]
            if members:
                first = next(iter(members.values()))
                if self._known is not None and self._known[:2] == (key, (*self._at, self._cluster.wakes)):
                    return _Work(key, first, self._known[2], _already(self._known[3]), self._at)
                if (work := self._begun(key, first)) is not None:
                    return work
                for each in members.values():  # a node would take it by now
                    self._cluster.queue.try_again(each.waiting, self._cluster.now)
            del self._open[key]
        return None

    def _begun(self, key: object, first: _Open) -> _Work | None:
        """None: a node takes it."""
        unit = self._cluster.renewed(first.unit)
        reasons = self._reasons(first, unit)
        return None if reasons is None else _Work(key, first, reasons, explain(unit, self._means), self._at)

    def _go_on(self, work: _Work) -> tuple[bool, Explanation | None]:
        """Whether it is over, and the explanation, if there is one."""
        if work.at != self._at:
            begun = self._begun(work.key, work.first) if work.begun < BEGINS_MAX else None
            if begun is None:
                return True, None
            work.reasons, work.steps, work.begun = begun.reasons, begun.steps, work.begun + 1
        until = self._clock.monotonic() + SLICE_S
        try:
            while True:
                next(work.steps)
                if self._clock.monotonic() >= until:
                    work.at = self._at
                    return False, None
        except StopIteration as end:
            found: Explanation | None = end.value
            if not work.first.unit.needed:  # a gang is told whole, and may have other members when it is refused again
                self._known = (work.key, (*self._at, self._cluster.wakes), work.reasons, found)
            return True, found
        except Exception as error:
            told(error, "explanation", unit=work.first.unit.id)
            return True, None

    def _still(self, each: _Open) -> bool:
        """It rests since then, and has not been told."""
        waiting = self._cluster.queue.waiting.get(each.waiting.name)
        is_same = waiting is each.waiting and waiting.object.uid == each.refusal.candidate.object.uid
        return is_same and not each.waiting.ready and each.waiting.reasons is each.refusal.reasons

    async def _tell(self, work: _Work, explanation: Explanation | None) -> None:
        members = self._open.get(work.key, {})
        some = list(islice(members.values(), None if work.first.unit.needed else TOLD_MAX))
        for each in some:
            del members[each.waiting.name]
        if not members:
            self._open.pop(work.key, None)
        for each in some:
            reasons = work.reasons.get(each.waiting.name) or next(iter(work.reasons.values()))
            if self._still(each):  # to publish takes its time
                metrics.REFUSED.labels(reasons[0].code.split(" ")[0] if reasons else "none").inc()
                self._cluster.queue.tell(each.waiting, reasons, explanation)
                await self._publisher.refused(
                    each.waiting, reasons, gang=each.refusal.gang, preemption=each.refusal.preemption
                )

    def _reasons(self, each: _Open, unit: Unit) -> dict[Name, tuple[Reason, ...]] | None:
        """Why the members of its unit are refused as things are; None: a node takes it."""
        if not is_untold(each.refusal.reasons):
            return {name: one.refusal.reasons for name, one in self._open_of(each).items()}
        solver = self._cluster.solver
        try:
            with solver.telling(), Trial(self._cluster.capacity) as trial:
                solution = solver.solve([unit], trial, PLAN)
        except Exception as error:
            return {each.waiting.name: (told(error, unit=unit.id).reason,)}
        reasons = {refusal.candidate.name: refusal.reasons for refusal in solution.refusals if refusal.reasons}
        return reasons if each.waiting.name in reasons else None

    def _open_of(self, each: _Open) -> dict[Name, _Open]:
        return next((members for members in self._open.values() if members.get(each.waiting.name) is each), {})


def _already(explanation: Explanation | None) -> Steps:
    yield from ()
    return explanation
