"""From Reservations, their users and nodes to what is held, patched and announced. No I/O, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from datetime import UTC, datetime
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.command import DeleteObject, PatchObject
from berth.contracts.event import ObjectRefused, ReservationChanged
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.contracts.subjects import command_subject, event_subject, named_key
from berth.reservation_manager.core.life import FINAL, Life, Phase, finished_of, live
from berth.reservation_manager.core.pacing import StatusPace
from berth.reservation_manager.core.reserved_capacity import capacity_of, problems_of
from berth.reservation_manager.core.schedules import Schedules
from berth.reservation_manager.core.status import status_of
from berth.reservation_manager.settings import SERVICE
from berth.reservation_manager.views import SCHEDULE_PREFIX, StateView, marked
from berth.rules.reservation_collect import is_collectable
from berth.runtime import Command, Event, Moment, Outcome, PublishedView, Write

RESERVATION: Final = "reservation"
API: Final = "scheduling.koordinator.sh/v1alpha1/reservations"


class _Asked(NamedTuple):
    """The status that was asked for, and when (monotonic seconds)."""

    status: str
    at: float


class Reconciler:
    """Decides about one Reservation at a time, or one ReservationSchedule."""

    def __init__(
        self,
        view: StateView,
        published: PublishedView[ReservedCapacity],
        *,
        schedulers: Container[str],
        retry_s: float,
        collect_after_s: float = 0.0,
    ) -> None:
        """`collect_after_s`: how long after its end a Reservation is deleted; 0: it stays."""
        self.view = view
        self.published = published
        self._pace = StatusPace()
        self.schedules = Schedules(retry_s=retry_s, pace=self._pace)
        self._schedulers = schedulers
        self._retry_s = retry_s
        self._ends: dict[str, tuple[float, bool]] = {}  # when a reservation ends, and whether it was taken for over
        self._phases: dict[str, str] = {}
        self._announced: dict[str, tuple[str, list[Problem]]] = {}  # by name: uid, and problems
        self._asked: dict[str, _Asked] = {}
        self._collect_after_s = collect_after_s
        self._collects: dict[str, float] = {}  # when a finished one is to be deleted
        self._deleting: dict[str, float] = {}  # when its deletion was asked for, monotonic

    @property
    def is_ready(self) -> bool:
        """From half a view nothing is decided."""
        return self.view.is_complete

    @property
    def missing(self) -> str:
        """What the view still lacks, for people."""
        if not self.view.decisions.is_at_end:
            return "reading the ledger"
        if not self.view.is_at_end:
            return "reading the state of the cluster"
        return "complete" if self.view.is_complete else "waiting for complete lists of pods, nodes and reservations"

    @property
    def facts(self) -> dict[str, str | int | float]:
        """For the question for the status."""
        return {
            "reservations": len(self.view.reservations),
            "schedules": len(self.view.schedules),
            "unreadable messages": self.view.unreadable + self.view.decisions.unreadable,
            "view": self.missing,
        }

    @property
    def phases(self) -> Counter[str]:
        """How many Reservations are in each phase."""
        return Counter(self._phases.values())

    def names(self) -> list[str]:
        """Every Reservation and schedule that may need something."""
        return [*self.view.reservations, *sorted(self.published.keys.values()), *map(marked, self.view.schedules)]

    def due(self, at: Moment) -> list[str]:
        """Reservations that end, those that still do not show the status that was asked for, and schedules alike."""
        ends = [name for name, (end, is_over) in self._ends.items() if (at.now > end) is not is_over]
        late = [name for name, asked in self._asked.items() if at.monotonic - asked.at >= self._retry_s]
        never = -self._retry_s
        old = [
            name
            for name, when in self._collects.items()
            if at.now > when and at.monotonic - self._deleting.get(name, never) >= self._retry_s
        ]
        held = self._pace.due(at.monotonic)
        return ends + late + old + held + [marked(each) for each in self.schedules.due(at.now, at.monotonic)]

    def begin(self) -> None:
        """Who is replaced may be so before its command is on its way."""
        self._asked.clear()
        self.schedules.begin()
        self._deleting.clear()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring RESERVATION and the object's status in line with its users, its node and the time."""
        if name.startswith(SCHEDULE_PREFIX):
            return self._schedule(name.removeprefix(SCHEDULE_PREFIX), at)
        key = named_key(RESERVATION, name)
        reservation = self.view.reservations.get(name)
        if reservation is None:
            for book in (self._ends, self._phases, self._announced, self._asked, self._collects, self._deleting):
                book.pop(name, None)
            self._pace.forget(name)
            return Outcome([Write(key, None)])
        gone = bool(reservation.node) and self.view.node_is_gone(reservation.node)
        life = live(reservation, self.view.users_of(reservation), node_is_gone=gone, now=at.now)
        if life.ends_at and reservation.phase not in FINAL:
            # A clock that was wrong is put right: until the object says that it is over, it may turn out not to be.
            self._ends[name] = (life.ends_at, at.now > life.ends_at)
        else:
            self._ends.pop(name, None)
        events = [*self._changes(reservation, life), *self._refusals(reservation)]
        commands = [*self._patches(reservation, life, at), *self._collected(reservation, at, is_node_gone=gone)]
        return Outcome([Write(key, capacity_of(reservation, life))], commands, events)

    def _collected(self, reservation: Reservation, at: Moment, *, is_node_gone: bool) -> list[Command]:
        """Ask cluster-writer to delete one that has finished long ago, as it was judged."""
        name, scheduler = reservation.name, reservation.template.scheduler
        self._collects.pop(name, None)
        before = self._deleting.pop(name, None)
        is_ours = not scheduler or scheduler in self._schedulers
        if not self._collect_after_s or reservation.phase not in FINAL or reservation.deleting or not is_ours:
            return []
        reason, since = finished_of(reservation)
        if since:
            self._collects[name] = since + self._collect_after_s
        if not is_collectable(
            phase=reservation.phase,
            reason=reason,
            finished_at=since,
            node_exists=not is_node_gone,
            now=at.now,
            after_s=self._collect_after_s,
        ):
            return []
        if before is not None and at.monotonic - before < self._retry_s:
            self._deleting[name] = before
            return []
        self._deleting[name] = at.monotonic
        self._collects.setdefault(name, 0.0)
        command = DeleteObject(api=API, name=name, uid=reservation.uid, version=str(reservation.version))
        subject = command_subject("delete", "reservations", name)
        return [Command(subject, command, id=f"{SERVICE}.{reservation.uid}.collect.{at.ms}")]

    def _schedule(self, name: str, at: Moment) -> Outcome:
        """Ask for the Reservations of a schedule's windows, and for its status."""
        schedule = self.view.schedules.get(name)
        if schedule is None:
            self.schedules.forget(name)
            return Outcome()
        waiting = self.view.waiting_for(self._schedulers)
        asked = self.schedules.look(schedule, self.view.reservations, waiting, at.now, at.monotonic)
        commands = [
            Command(
                command_subject("apply", "reservations", each.name),
                each,
                id=f"{SERVICE}.{schedule.uid}.{each.name}.{at.ms}",
            )
            for each in asked.applies
        ]
        if asked.patch is not None:
            subject = command_subject("patch", "reservationschedules", name)
            commands.append(Command(subject, asked.patch, id=f"{SERVICE}.{schedule.uid}.{at.ms}"))
        if not asked.refused:
            return Outcome(commands=commands)
        message = ObjectRefused(kind="ReservationSchedule", name=name, problems=asked.refused)
        subject = event_subject("object", "refused", "reservationschedules", name)
        refused = Event(subject, message, id=f"{SERVICE}.{schedule.uid}.refused.{schedule.version}")
        return Outcome(commands=commands, events=[refused])

    def _patches(self, reservation: Reservation, life: Life, at: Moment) -> list[Command]:
        """Ask cluster-writer for the status, guarded by the version that was judged.

        Another scheduler's reservation counts like any other, but its status is that scheduler's to write.
        """
        scheduler, name = reservation.template.scheduler, reservation.name
        if not life.changed or (scheduler and scheduler not in self._schedulers):
            self._asked.pop(name, None)
            self._pace.settle(name)
            return []
        status = f"{reservation.version}/{life.phase}/{sorted(life.allocated.items())}/{[o.uid for o in life.owners]}"
        asked = self._asked.get(name)
        if asked is not None and asked.status == status and at.monotonic - asked.at < self._retry_s:
            return []
        is_phase = life.phase.value != (reservation.phase or Phase.PENDING)
        if not self._pace.admit(name, at.monotonic, is_phase=is_phase):
            return []
        self._asked[name] = _Asked(status, at.monotonic)
        time = datetime.fromtimestamp(at.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = PatchObject(
            api=API,
            name=name,
            uid=reservation.uid,
            version=str(reservation.version),
            status=status_of(reservation, life, time),
        )
        return [
            Command(command_subject("patch", "reservations", name), patch, id=f"{SERVICE}.{reservation.uid}.{at.ms}")
        ]

    def _changes(self, reservation: Reservation, life: Life) -> list[Event]:
        """A new phase. One that the object shows at first sight is no news."""
        name, phase = reservation.name, life.phase.value
        before, self._phases[name] = self._phases.get(name), phase
        if before == phase or (before is None and reservation.phase == life.phase):
            return []
        message = ReservationChanged(name=name, phase=phase, node=reservation.node, message=life.reason)
        subject = event_subject("reservation", "changed", phase.lower(), name)
        return [Event(subject, message, id=f"{SERVICE}.{reservation.uid}.{phase}")]

    def _refusals(self, reservation: Reservation) -> list[Event]:
        """Problems that are new."""
        name, uid, problems = reservation.name, reservation.uid, problems_of(reservation)
        before, self._announced[name] = self._announced.get(name), (uid, problems)
        if not problems or before == (uid, problems):
            return []
        message = ObjectRefused(kind="Reservation", name=name, problems=problems)
        subject = event_subject("object", "refused", "reservations", name)
        return [Event(subject, message, id=f"{SERVICE}.{uid}.refused.{reservation.version}")]
