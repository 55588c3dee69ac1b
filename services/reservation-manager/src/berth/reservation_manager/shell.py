"""Bus in, bus out: Reservations and their users in, room and status out. Only the holder of the lease writes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from berth.bus.port import Entry
from berth.contracts import buckets, subjects
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.command import PatchObject
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import ObjectRefused, ReservationChanged
from berth.contracts.question import StatusAnswer
from berth.contracts.state import Reservation
from berth.reservation_manager.core.life import FINAL, Life, Phase, live
from berth.reservation_manager.core.reserved_capacity import problems_of, room_of
from berth.reservation_manager.core.status import status_of
from berth.reservation_manager.settings import Settings
from berth.reservation_manager.views import StateView
from berth.runtime import ActiveStandby, ChangeSet, Context, Periodic
from berth.telemetry import counter, gauge

SERVICE = "reservation-manager"
API = "scheduling.koordinator.sh/v1alpha1/reservations"
TICK_S = 1.0
BATCH_MAX = 500

BY_PHASE = gauge("berth_reservations_known", "Reservations by phase.", ["phase"])
PATCHES = counter("berth_reservations_status_patches_total", "Status patches that were asked for.")
REFUSED = counter("berth_reservations_refused_total", "Reservations with problems, each time they are new.")


class Published:
    """A sink of our own bucket: which reservations it holds."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def reset(self) -> None:
        """The bucket starts over."""
        self.names.clear()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        name = _name_in(entry.key)
        if name is not None:
            (self.names.discard if entry.deleted else self.names.add)(name)

    def end(self, sequence: int) -> None:
        """The end was reached."""


class Shell:
    """One replica."""

    def __init__(self, context: Context[Settings]) -> None:
        self.context = context
        self.changed: ChangeSet[str] = ChangeSet(context.clock)
        self.published = Published()
        self.view = StateView(self.changed.mark, self._mark_all)
        self.owned = context.bus.owned(
            buckets.RESERVATION,
            sink=self.published,
            on_conflict=self._mark_key,
            on_reset=self._mark_all,
        )
        self.standby = ActiveStandby(context.bus, SERVICE, context.instance, ttl_s=context.settings.lease_ttl_s)
        self._ends: dict[str, tuple[float, bool]] = {}  # when a reservation ends, and whether it was taken for over
        self._phases: dict[str, str] = {}
        self._told: dict[str, tuple[str, list[Problem]]] = {}  # by name: uid and what was told of it
        self._asked: dict[str, tuple[str, float]] = {}

    async def run(self) -> None:
        """Start everything and work until cancelled."""
        context = self.context
        context.health.add(
            "state", lambda: (self.view.is_at_end, "read to the end" if self.view.is_at_end else "reading")
        )
        context.health.add("lease", self.standby.check)
        context.spawn(context.bus.follow(buckets.STATE, self.view).run(), name="follow-state")
        context.spawn(self._tick(), name="tick")
        await context.bus.serve(SERVICE, "0.1.0", {"status": self._status})
        await self.owned.ready()
        try:
            await self.standby.run(self._work)
        finally:
            await self.owned.drain()

    async def _work(self) -> None:
        """Decide and write for as long as this replica is the active one."""
        self.context.log.info("active: publishing reserved room")
        self._asked.clear()  # who is replaced may be so before its command is on its way
        self._mark_all()
        async for names in self.changed.batches(self.context.settings.window_s, BATCH_MAX):
            # From half a view nothing is decided; when it becomes complete every reservation is marked.
            if not self.view.is_complete:
                continue
            for name in names:
                if not self.view.is_complete:
                    break  # STATE began anew while a command waited for its place in the queue
                try:
                    await self._decide(name)
                except (InvalidMessage, ValueError) as error:
                    self.context.log.error("a reservation cannot be published", name=name[:253], error=str(error))
            await self.owned.wait_while_full()

    async def _decide(self, name: str) -> None:
        key = subjects.named_key("reservation", name)
        reservation = self.view.reservations.get(name)
        if reservation is None:
            self.owned.delete(key)
            for book in (self._ends, self._phases, self._told, self._asked):
                book.pop(name, None)
            return
        now = self.context.clock.now()
        gone = bool(reservation.node) and self.view.node_is_gone(reservation.node)
        life = live(reservation, self.view.users_of(reservation), node_is_gone=gone, now=now)
        self.owned.put(key, encode(room_of(reservation, life)))
        if life.ends_at and reservation.phase not in FINAL:
            # A clock that was wrong is put right: until the object says that it is over, it may turn out not to be.
            self._ends[name] = (life.ends_at, now > life.ends_at)
        else:
            self._ends.pop(name, None)
        self._tell(reservation, life)
        if life.changed and self._is_ours(reservation):
            await self._ask(reservation, life)
        else:
            self._asked.pop(name, None)

    def _is_ours(self, reservation: Reservation) -> bool:
        """Another scheduler's reservation holds room like any other, but its status is that scheduler's to write."""
        scheduler = reservation.template.scheduler
        return not scheduler or scheduler in self.context.settings.scheduler_names

    async def _ask(self, reservation: Reservation, life: Life) -> None:
        """Ask cluster-writer for the status, guarded by the version that was judged."""
        now, since_start = self.context.clock.now(), self.context.clock.monotonic()
        wish = f"{reservation.version}/{life.phase}/{sorted(life.allocated.items())}/{[o.uid for o in life.owners]}"
        asked = self._asked.get(reservation.name)
        if asked is not None and asked[0] == wish and since_start - asked[1] < self.context.settings.status_retry_s:
            return
        self._asked[reservation.name] = (wish, since_start)
        at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = PatchObject(
            api=API,
            name=reservation.name,
            uid=reservation.uid,
            version=str(reservation.version),
            status=status_of(reservation, life, at),
        )
        await self.context.bus.commands().publish(
            subjects.command_subject("patch", "reservations", reservation.name),
            encode(patch),
            id=f"{SERVICE}.{reservation.uid}.{int(now * 1000)}",
            type="object.patch.v1",
        )
        PATCHES.inc()

    def _tell(self, reservation: Reservation, life: Life) -> None:
        """Events for people: a new phase, new problems."""
        events = self.context.bus.events()
        if self._phases.get(reservation.name) != life.phase:
            known = reservation.name in self._phases
            self._phases[reservation.name] = life.phase.value
            if known or reservation.phase != life.phase:
                message = ReservationChanged(
                    name=reservation.name, phase=life.phase.value, node=reservation.node, message=life.reason
                )
                subject = subjects.event_subject("reservation", "changed", life.phase.value.lower(), reservation.name)
                marker = f"{SERVICE}.{reservation.uid}.{life.phase.value}"
                events.offer(subject, encode(message), id=marker, type="reservation.changed.v1")
        problems = problems_of(reservation)
        told, self._told[reservation.name] = self._told.get(reservation.name), (reservation.uid, problems)
        if problems and told != (reservation.uid, problems):
            REFUSED.inc()
            refusal = ObjectRefused(kind="Reservation", name=reservation.name, problems=problems)
            subject = subjects.event_subject("object", "refused", "reservations", reservation.name)
            marker = f"{SERVICE}.{reservation.uid}.refused.{reservation.version}"
            events.offer(subject, encode(refusal), id=marker, type="object.refused.v1")

    async def _tick(self) -> None:
        """Time is the other thing that changes a reservation."""
        by_phase = {phase: BY_PHASE.labels(phase.value) for phase in Phase}
        async for _ in Periodic(self.context.clock, TICK_S).ticks():
            now, since_start = self.context.clock.now(), self.context.clock.monotonic()
            retry_s = self.context.settings.status_retry_s
            self.changed.mark_all([name for name, (end, is_over) in self._ends.items() if (now > end) is not is_over])
            self.changed.mark_all([name for name, (_, at) in self._asked.items() if since_start - at >= retry_s])
            counts = Counter(self._phases.values())
            for phase, known in by_phase.items():
                known.set(counts[phase])

    def _mark_key(self, key: str) -> None:
        """Somebody else wrote this key."""
        name = _name_in(key)
        if name is not None:
            self.changed.mark(name)

    def _mark_all(self) -> None:
        self.changed.mark_all([*self.view.reservations, *sorted(self.published.names)])

    async def _status(self, _: bytes) -> bytes:
        return encode(
            StatusAnswer(
                service=SERVICE,
                instance=self.context.instance,
                active=self.standby.active,
                ready=self.view.is_at_end,
                facts={"reservations": len(self.view.reservations), "unreadable messages": self.view.unreadable},
            )
        )


def _name_in(key: str) -> str | None:
    """The reservation that a key of RESERVATION is about; None for one that nobody but a stranger writes."""
    try:
        return subjects.unescape(key.partition(".")[2])
    except ValueError:
        return None


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()
