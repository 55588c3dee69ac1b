"""Reasons in words for those whom a round has refused: made after the round, once for all who are alike.

A round only notes that no node takes a pod. Here it is tried once more, this time with words, and told. A look takes
one of those who wait for words, with all who are like it, so that what else there is to do goes on in between.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import islice
from typing import Final, NamedTuple

from berth.contracts.base import Reason
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.explain import is_untold
from berth.placement_solver.core.plan import Refusal, Unit
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.solve import Trial
from berth.placement_solver.event_publisher import EventPublisher
from berth.placement_solver.mishaps import told
from berth.transaction.claims import Name

TOLD_MAX: Final = 64
"""Of those who are alike so many are told at one look: each costs a command and an event."""
PLAN: Final = "explain"


class _Open(NamedTuple):
    """One that was refused in `unit`, and what else is to be said."""

    waiting: Waiting
    unit: Unit
    refusal: Refusal


class Explaining:
    """Those who wait for words, oldest first. `wanted` is set while there are any."""

    def __init__(self, cluster: ClusterView, publisher: EventPublisher) -> None:
        self.wanted = asyncio.Event()
        self._cluster = cluster
        self._publisher = publisher
        self._open: OrderedDict[object, dict[Name, _Open]] = OrderedDict()

    def put(self, waiting: Waiting, unit: Unit, refusal: Refusal) -> None:
        """It was refused, and has no words yet."""
        key = unit.id if unit.needed else self._cluster.twin_of(waiting) or waiting.name
        self._open.setdefault(key, {})[waiting.name] = _Open(waiting, unit, refusal)
        self.wanted.set()

    async def look(self) -> bool:
        """Tell some of those who are alike; False when nobody waits for words."""
        while self._open:
            key, members = next(iter(self._open.items()))
            for name in [name for name, each in members.items() if not self._still(each)]:
                del members[name]
            some = list(islice(members.values(), TOLD_MAX if not _unit_of(members).needed else None)) if members else []
            for each in some:
                del members[each.waiting.name]
            if not members:
                del self._open[key]
            if some:
                await self._tell(some)
                break
        if not self._open:
            self.wanted.clear()
        return bool(self._open)

    async def tell_of(self, name: Name) -> None:
        """Somebody asks about this one: it is told before the others."""
        for key, members in self._open.items():
            if (each := members.get(name)) is not None:
                if not each.unit.needed:
                    del members[name]
                    self._open[object()] = {name: each}
                    key = next(reversed(self._open))
                self._open.move_to_end(key, last=False)
                await self.look()
                return

    def _still(self, each: _Open) -> bool:
        """It rests since then, and has no words."""
        waiting = self._cluster.queue.waiting.get(each.waiting.name)
        is_same = waiting is each.waiting and waiting.object.uid == each.refusal.candidate.object.uid
        return is_same and not each.waiting.ready and is_untold(each.waiting.reasons)

    async def _tell(self, some: list[_Open]) -> None:
        found = self._reasons(some[0])
        if found is None:
            for each in some:  # a node would take it by now
                self._cluster.queue.try_again(each.waiting, self._cluster.now)
            return
        for each in some:
            reasons = found.get(each.waiting.name) or found[some[0].waiting.name]
            if self._still(each):  # to publish takes its time
                metrics.REFUSED.labels(reasons[0].code.split(" ")[0]).inc()
                self._cluster.queue.tell(each.waiting, reasons)
                await self._publisher.refused(
                    each.waiting, reasons, gang=each.refusal.gang, preemption=each.refusal.preemption
                )

    def _reasons(self, each: _Open) -> dict[Name, tuple[Reason, ...]] | None:
        """Why the members of its unit are refused as things are; None: a node takes it."""
        cluster = self._cluster
        unit = cluster.renewed(each.unit)
        try:
            with cluster.solver.telling(), Trial(cluster.capacity) as trial:
                solution = cluster.solver.solve([unit], trial, PLAN)
        except Exception as error:
            return {each.waiting.name: (told(error, unit=unit.id).reason,)}
        reasons = {refusal.candidate.name: refusal.reasons for refusal in solution.refusals if refusal.reasons}
        return reasons if each.waiting.name in reasons else None


def _unit_of(members: dict[Name, _Open]) -> Unit:
    return next(iter(members.values())).unit
