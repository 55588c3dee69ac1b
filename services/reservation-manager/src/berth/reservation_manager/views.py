"""What reservation-manager sees: Reservations, the pods that draw on them, the nodes there are, decisions on pods."""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from berth.bus.port import Entry
from berth.contracts import names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Epoch
from berth.contracts.state import Amounts, Node, Pod, Reservation, ReservationSchedule, Synced
from berth.reservation_manager.core.life import User
from berth.reservation_manager.core.schedule import Waiting
from berth.rules.records import registry
from berth.rules.reservation_take_over import TAKE_OVER
from berth.rules.reservation_window import window_of
from berth.transaction.owners import Owners

FINISHED = frozenset({"Succeeded", "Failed"})
PodName = tuple[str, str]


_POD = msgspec.json.Decoder(Pod)


REQUIRED = frozenset({"pods", "nodes", "reservations"})
"""Kinds that have to be complete: without its users a reservation looks unused, without its node it looks lost."""


SCHEDULE_PREFIX = "schedule/"
"""What the name of a ReservationSchedule is marked with; no name of a Reservation begins like this."""


def marked(schedule: str) -> str:
    """How a schedule is marked."""
    return SCHEDULE_PREFIX + schedule


class _Template(msgspec.Struct, frozen=True):
    requests: Amounts = {}
    scheduler: str = ""
    priority: int = 0


class Unschedulable(msgspec.Struct, frozen=True):
    """What of a pod counts here that was told that there is no room for it."""

    template: _Template = _Template()
    node: str = ""
    phase: str = ""
    unschedulable: str = ""
    deleting: bool = False


_UNSCHEDULABLE = msgspec.json.Decoder(Unschedulable)
_IS_UNSCHEDULABLE = b'"unschedulable":"'


DECISIONS = (subjects.EPOCH_KEY, "*.decision.>")
"""What of LEDGER is read."""


class _Step(msgspec.Struct, frozen=True):
    action: str = ""
    pod_uid: str = ""


class Decided(msgspec.Struct, frozen=True):
    """What of a decision counts here: for which pod on which node, and the uid of the Reservation it draws on; of one
    on a Reservation, which pods it takes over."""

    uid: str
    node: str
    reservation_uid: str = ""
    before: tuple[_Step, ...] = ()

    def takes_over(self, pod: Pod) -> bool:
        """It is on a Reservation that takes over this pod."""
        return self.node == pod.node and any(
            step.action == TAKE_OVER and step.pod_uid == pod.uid for step in self.before
        )


_DECIDED = msgspec.json.Decoder(Decided)


class DecisionView:
    """A sink of LEDGER: the decisions of the current epoch.

    `on_change(pod)` is called for each that changes, `on_end()` each time that `is_at_end` may have changed.

    What cannot be read is counted, and what was known of its pod stays.
    """

    def __init__(self, on_change: Callable[[PodName], None], on_end: Callable[[], None]) -> None:
        self.is_at_end = False
        self.unreadable = 0
        self._on_change = on_change
        self._on_end = on_end
        self._epoch = Epoch(epoch=0)
        self._decided: dict[PodName, Decided] = {}

    def reset(self) -> None:
        """LEDGER starts over."""
        self._forget(Epoch(epoch=0))
        self.is_at_end = False
        self._on_end()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            if entry.key == subjects.EPOCH_KEY:
                epoch = Epoch(epoch=0) if entry.deleted else decode(entry.value, Epoch)
                if epoch != self._epoch:
                    self._forget(epoch)
            elif entry.key.startswith(subjects.epoch_prefix(self._epoch.epoch)):
                _, _, namespace, name = subjects.parts(entry.key)
                self._decision((namespace, name), entry)
        except (InvalidMessage, ValueError, msgspec.MsgspecError, RecursionError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end was reached."""
        self.is_at_end = True
        self._on_end()

    def denies(self, pod: Pod, reservation: Reservation) -> bool:
        """A decision stands for this pod on its node, it does not draw on that Reservation, and no decision on that
        takes the pod over."""
        decided = self._decided.get((pod.namespace, pod.name))
        if decided is None or (decided.uid, decided.node) != (pod.uid, pod.node):
            return False
        if decided.reservation_uid == reservation.uid:
            return False
        taking = self._decided.get(("", reservation.name))
        return taking is None or taking.uid != reservation.uid or not taking.takes_over(pod)

    def _decision(self, name: PodName, entry: Entry) -> None:
        if entry.deleted:
            self._decided.pop(name, None)
        else:
            self._decided[name] = _DECIDED.decode(entry.value)
        self._on_change(name)

    def _forget(self, epoch: Epoch) -> None:
        gone, self._decided, self._epoch = self._decided, {}, epoch
        for name in gone:
            self._on_change(name)


class StateView:
    """A sink of STATE. `mark(name)` is called for every reservation, and behind SCHEDULE_PREFIX for every schedule,
    that something has changed for, `on_complete()` each time that the view has become complete."""

    def __init__(self, mark: Callable[[str], None], on_complete: Callable[[], None] = lambda: None) -> None:
        self.decisions = DecisionView(self._decision_changed, self._note_complete)
        """The sink of LEDGER."""
        self.reservations: dict[str, Reservation] = {}
        self.schedules: dict[str, ReservationSchedule] = {}
        self.nodes: set[str] = set()
        self.is_at_end = False
        self.unreadable = 0
        self._mark = mark
        self._on_complete = on_complete
        self._was_complete = False
        self._name_of: dict[str, str] = {}
        self._users: dict[str, dict[PodName, tuple[Pod, User]]] = {}
        self._owners = Owners()
        self._uses: dict[PodName, str] = {}
        self._waiting: dict[PodName, Unschedulable] = {}
        self._synced: set[str] = set()

    def reset(self) -> None:
        """STATE starts over."""
        books = (self.reservations, self.schedules, self._name_of, self._users, self._uses, self._waiting)
        for each in (*books, self.nodes, self._synced):
            each.clear()
        self._owners.clear()
        self.is_at_end = self._was_complete = False

    @property
    def is_complete(self) -> bool:
        """Everything that a decision depends on has been read."""
        return self.is_at_end and self.decisions.is_at_end and self._synced >= REQUIRED

    def apply(self, entry: Entry) -> None:
        """The next message; one that cannot be read is counted."""
        kind, _, rest = entry.key.partition(".")
        try:
            if kind == "pod":
                self._pod(rest, entry)
            elif kind == "reservation":
                self._reservation(subjects.unescape(rest), entry)
            elif kind == "reservationschedule":
                self._schedule(subjects.unescape(rest), entry)
            elif kind == "node":
                self._node(subjects.unescape(rest), entry)
            elif kind == "synced" and not entry.deleted:
                marker = decode(entry.value, Synced)
                (self._synced.add if marker.complete else self._synced.discard)(marker.kind)
                self._note_complete()
        except (InvalidMessage, ValueError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end was reached."""
        self.is_at_end = True
        self._note_complete()

    def users_of(self, reservation: Reservation) -> list[User]:
        """The pods on its node that name its uid, have not ended, and that it accepts as owners.

        Anybody can write such a note: a pod that was not meant neither uses the reservation nor ends it. While a
        decision on a pod stands, a note that it does not confirm counts for nothing.
        """
        users = self._users.get(reservation.uid, {})
        return [
            user
            for pod, user in users.values()
            if pod.node == reservation.node
            and self._owners.accept(reservation.uid, pod)
            and not self.decisions.denies(pod, reservation)
        ]

    def waiting_for(self, schedulers: Container[str]) -> list[Waiting]:
        """The pods of these schedulers that were told that there is no room for them."""
        return [
            Waiting(pod.template.priority, pod.template.requests)
            for pod in self._waiting.values()
            if pod.template.scheduler in schedulers
        ]

    def node_is_gone(self, node: str) -> bool:
        """The node is not there, and the view is complete enough to say so."""
        return self.is_complete and node not in self.nodes

    def _decision_changed(self, pod: PodName) -> None:
        if not pod[0] and pod[1] in self.reservations:
            self._mark(pod[1])
        uid = self._uses.get(pod, "")
        if uid in self._name_of:
            self._mark(self._name_of[uid])

    def _note_complete(self) -> None:
        was, self._was_complete = self._was_complete, self.is_complete
        if self.is_complete and not was:
            self._on_complete()

    def _reservation(self, name: str, entry: Entry) -> None:
        reservation = None if entry.deleted else decode(entry.value, Reservation)
        old = self.reservations.pop(name, None)
        if old is not None:
            self._name_of.pop(old.uid, None)
        self._owners.see(name, reservation)
        if reservation is not None:
            self.reservations[name] = reservation
            self._name_of[reservation.uid] = name
        self._mark(name)
        notes = [window_of(each.annotations) for each in (old, reservation) if each is not None]
        for schedule in sorted({note.schedule for note in notes if note is not None}):
            self._mark(marked(schedule))

    def _schedule(self, name: str, entry: Entry) -> None:
        schedule = None if entry.deleted else decode(entry.value, ReservationSchedule)
        self.schedules.pop(name, None)
        if schedule is not None:
            self.schedules[name] = schedule
        self._mark(marked(name))

    def _node(self, name: str, entry: Entry) -> None:
        there = not entry.deleted and not decode(entry.value, Node).deleting
        if there == (name in self.nodes):
            return
        (self.nodes.add if there else self.nodes.discard)(name)
        for reservation in self.reservations.values():
            if reservation.node == name:
                self._mark(reservation.name)

    def _pod(self, rest: str, entry: Entry) -> None:
        namespace, name = subjects.parts(rest)
        pod_name = (namespace, name)
        self._note_waiting(pod_name, b"" if entry.deleted else entry.value)
        old = self._uses.pop(pod_name, None)
        if old is not None:
            self._users[old].pop(pod_name, None)
            if not self._users[old]:
                del self._users[old]
        new = "" if entry.deleted else self._read_user(pod_name, entry.value)
        for uid in sorted({old or "", new} - {""}):
            if uid in self._name_of:
                self._mark(self._name_of[uid])

    def _note_waiting(self, pod_name: PodName, value: bytes) -> None:
        self._waiting.pop(pod_name, None)
        if _IS_UNSCHEDULABLE not in value:
            return
        try:
            pod = _UNSCHEDULABLE.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return
        if pod.unschedulable and not pod.node and not pod.deleting and pod.phase not in FINISHED:
            self._waiting[pod_name] = pod

    def _read_user(self, pod_name: PodName, value: bytes) -> str:
        """The uid of the reservation that this pod draws on, noted; empty when it draws on none."""
        if names.ANNOTATION_RESERVATION_ALLOCATED.encode() not in value:
            return ""
        try:
            pod = _POD.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return ""
        uid = registry.RESERVATION.read(pod.template.annotations)
        if not pod.node or pod.phase in FINISHED or not uid:
            return ""
        user = User(pod.uid, pod.namespace, pod.name, pod.template.requests)
        self._users.setdefault(uid, {})[pod_name] = (pod, user)
        self._uses[pod_name] = uid
        return uid
