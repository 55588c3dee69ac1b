"""What waits, as units for the solver: first ones first, a gang group whole or not at all.

A batch leaves out who cannot be tried yet: members of groups that are not complete are refused with the reason; who is
to be judged by something that is still on its way goes back into the queue until it is there, or has taken too long.
At whom a plugin raises is left out as well, and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.base import Reason
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.awaited_inputs import AwaitedInputs
from berth.placement_solver.core.classes import ClassTable, PodClass
from berth.placement_solver.core.groups import Gang, Gangs, pods_of
from berth.placement_solver.core.mishaps import mishap_of
from berth.placement_solver.core.payers import Payers
from berth.placement_solver.core.plan import Candidate, Unit, spec_of
from berth.placement_solver.core.prices.workload import Workload
from berth.placement_solver.core.queue import Queue, Waiting
from berth.placement_solver.core.reasons import refusals_of
from berth.placement_solver.core.surcharges import refusals_in
from berth.placement_solver.core.waits import Wait
from berth.rules.member_order import member_key
from berth.rules.reservation_match import alike_request_of, reservation_request_of
from berth.transaction.claims import Name


class Failed(NamedTuple):
    """Those about whom a plugin was asked, and what it raised."""

    waiting: tuple[Waiting, ...]
    error: Exception


class Batches:
    """Takes from a queue, and puts back what has to wait."""

    def __init__(
        self,
        queue: Queue,
        gangs: Gangs,
        awaited: AwaitedInputs,
        classes: ClassTable,
        payers: Payers,
        workload: Workload,
    ) -> None:
        self._queue = queue
        self._gangs = gangs
        self._awaited = awaited
        self._classes = classes
        self._payers = payers
        self._workload = workload
        self.failed: list[Failed] = []
        """Since somebody looked last."""

    def take(self, limit: int, now: float) -> tuple[list[Unit], list[tuple[Waiting, Reason]]]:
        """Up to about `limit` candidates as units, and members of groups that cannot be tried yet.

        `now` is monotonic, in seconds.
        """
        units: list[Unit] = []
        held_back: list[tuple[Waiting, Reason]] = []
        waits: dict[str, tuple[Wait, Waiting] | None] = {}
        taken = 0
        while taken < limit:
            waiting = self._queue.take(now)
            if waiting is None:
                break
            taken += 1
            gangs: Sequence[Gang] = ()
            if waiting.group:
                readiness = self._gangs.readiness(waiting.group)
                if readiness.reason is not None:
                    held_back.append((waiting, readiness.reason))
                    continue
                if not readiness.satisfied or self._gangs.lies_anew(waiting.group):
                    gangs = self._gangs.members_of_group(waiting.group)
            if not gangs:
                wait = self._awaited.longest_wait((waiting,), now)
            elif waiting.group in waits:
                wait = waits[waiting.group]
            else:
                members = [self._queue.waiting[name] for name in pods_of(gangs, self._queue.waiting)]
                wait = waits[waiting.group] = self._awaited.longest_wait(members, now)
            if wait is not None:
                self._hold(waiting, *wait, now)
            else:
                pulled = self._pull(waiting, gangs, now) if gangs else [waiting]
                taken += len(pulled) - 1
                try:
                    unit = self._group_unit(waiting, pulled, gangs) if gangs else self._single(waiting)
                except Exception as error:
                    self.failed.append(Failed(tuple(pulled), error))
                else:
                    units.append(unit)
        return units, held_back

    def unit_of(self, name: Name, group: str, now: float) -> Unit | None:
        """The unit of a name, with all that wait of this gang group unless that is empty; None: it does not wait."""
        waiting = self._queue.waiting.get(name)
        if waiting is None:
            return None
        if not group:
            return self._single(waiting)
        gangs = self._gangs.members_of_group(group)
        return self._group_unit(waiting, self._pull(waiting, gangs, now), gangs)

    def _single(self, waiting: Waiting) -> Unit:
        return Unit(waiting.object.uid, (self._candidate(waiting),))

    def _hold(self, waiting: Waiting, wait: Wait, member: Waiting, now: float) -> None:
        """Something that it, or another member of its group, is to be judged by is on its way."""
        reason = wait.reason
        if member is not waiting:
            reason = replace(reason, message=f"member {'/'.join(member.name)}: {reason.message}")
        waiting.message = reason.message
        self._queue.hold(waiting, (reason,), now, until=wait.until)

    def _pull(self, first: Waiting, gangs: Sequence[Gang], now: float) -> list[Waiting]:
        """All members that wait."""
        self._queue.pull([first.name], now)
        pulled = {waiting.name: waiting for waiting in self._queue.pull(pods_of(gangs, self._queue.waiting), now)}
        pulled.setdefault(first.name, first)
        return list(pulled.values())

    def _group_unit(self, first: Waiting, members: Sequence[Waiting], gangs: Sequence[Gang]) -> Unit:
        pulled = {waiting.name: waiting for waiting in members}
        gang_of = {name: gang.id for gang in gangs for name in sorted(gang.children) if name in pulled}
        index = names.ANNOTATION_GANG_TOPOLOGY_INDEX
        ordered = sorted(
            pulled.values(),
            key=lambda w: (gang_of.get(w.name, ""), member_key(w.name[1], w.template.annotations.get(index)), w.name),
        )
        needed = {gang.id: self._gangs.needed(gang) for gang in gangs}
        candidates: list[Candidate] = []
        for waiting in ordered:
            if waiting.name in gang_of:
                candidates.append(self._candidate(waiting, candidates[-1] if candidates else None))
        return Unit(
            id=first.group,
            candidates=tuple(candidates),
            gang_of=gang_of,
            needed=needed,
            # Where nobody is needed, nobody waits for another one.
            strict=any(needed.values())
            and any(gang.config is not None and gang.config.mode == "Strict" for gang in gangs),
        )

    def late_for(self, unit: Unit) -> list[Name]:
        """Members of its gangs that wait by now, and were not there when it was taken."""
        if not unit.needed:
            return []
        there = {each.name for each in unit.candidates}
        return [
            name for name in pods_of(self._gangs.members_of_group(unit.id), self._queue.waiting) if name not in there
        ]

    def candidates(self, listed: Iterable[Name]) -> list[Candidate]:
        """Those of some objects that wait, as they would be taken."""
        return [self._candidate(self._queue.waiting[name]) for name in listed if name in self._queue.waiting]

    def renewed(self, unit: Unit) -> Unit:
        """The unit with what constraints say of its candidates by now: it was taken a while ago."""
        candidates = []
        for candidate in unit.candidates:
            try:
                compiled = candidate.cls.rules.compile_pod(candidate.spec)
                refusals = (*refusals_of(compiled), *refusals_in(candidate.charge))
            except Exception as error:
                self.failed.append(Failed((), error))
                candidates.append(candidate._replace(asked=(), refusals=(mishap_of(error).reason,)))
            else:
                candidates.append(candidate._replace(asked=compiled.asked, refusals=refusals))
        return unit._replace(candidates=tuple(candidates))

    def _candidate(self, waiting: Waiting, before: Candidate | None = None) -> Candidate:
        """As who waits would be tried; `before` was worked out just now, and may be a pod like it."""
        template, obj = waiting.template, waiting.object
        if before is not None and isinstance(obj, Pod) and _are_alike(obj, before.object):
            self._count(waiting, before.cls, before.quota)
            return before.alike(obj, alike_request_of(obj, before.wish), waiting.seen_ms)
        cls = self._classes.of(template, list(obj.problems))
        compiled = cls.rules.compile_pod(spec_of(obj))
        if isinstance(obj, Reservation):
            return Candidate(
                waiting.name,
                obj,
                cls,
                seen_ms=waiting.seen_ms,
                asked=compiled.asked,
                refusals=refusals_of(compiled),
            )
        payer = self._payers.of(obj)
        self._count(waiting, cls, payer)
        charge = self._payers.surcharges.of(obj, payer)
        return Candidate(
            waiting.name,
            obj,
            cls,
            quota=payer,
            non_preemptible=template.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false",
            wish=reservation_request_of(obj),
            seen_ms=waiting.seen_ms,
            asked=compiled.asked,
            refusals=(*refusals_of(compiled), *refusals_in(charge)),
            uncharged=self._payers.free_of(obj),
            charge=charge,
        )

    def _count(self, waiting: Waiting, cls: PodClass, payer: tuple[str, str] | None) -> None:
        """It has come; once, whoever asks for it."""
        if not waiting.is_counted:
            waiting.is_counted = True
            self._workload.came(cls, payer)


def _are_alike(pod: Pod, other: Pod | Reservation) -> bool:
    """Whether two pods of a gang say the same, so that the same is asked of nodes and quotas for both.

    Volumes that are made for a pod bear its name.
    """
    return (
        isinstance(other, Pod)
        and not pod.template.volumes
        and pod.namespace == other.namespace
        and pod.template == other.template
        and pod.owners == other.owners
        and pod.problems == other.problems
        and pod.deleting == other.deleting
    )
