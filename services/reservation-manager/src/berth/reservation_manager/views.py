"""What reservation-manager sees: Reservations, the pods that draw on them, the nodes there are."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from berth.bus.port import Entry
from berth.contracts import names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.state import Node, Pod, Reservation, Synced
from berth.reservation_manager.core.life import User
from berth.rules.allocation_notes import noted_reservation
from berth.transaction.owners import Owners

FINISHED = frozenset({"Succeeded", "Failed"})
PodName = tuple[str, str]


_POD = msgspec.json.Decoder(Pod)


REQUIRED = frozenset({"pods", "nodes", "reservations"})
"""Kinds that have to be complete: without its users a reservation looks unused, without its node it looks lost."""


class StateView:
    """A sink of STATE. `mark(name)` is called for every reservation that something has changed for, `on_complete()`
    each time that the view has become complete."""

    def __init__(self, mark: Callable[[str], None], on_complete: Callable[[], None] = lambda: None) -> None:
        self.reservations: dict[str, Reservation] = {}
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
        self._synced: set[str] = set()

    def reset(self) -> None:
        """STATE starts over."""
        for each in (self.reservations, self._name_of, self._users, self._uses, self.nodes, self._synced):
            each.clear()
        self._owners.clear()
        self.is_at_end = self._was_complete = False

    @property
    def is_complete(self) -> bool:
        """Everything that a decision depends on has been read."""
        return self.is_at_end and self._synced >= REQUIRED

    def apply(self, entry: Entry) -> None:
        """The next message; one that cannot be read is counted."""
        kind, _, rest = entry.key.partition(".")
        try:
            if kind == "pod":
                self._pod(rest, entry)
            elif kind == "reservation":
                self._reservation(subjects.unescape(rest), entry)
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

        Anybody can write such a note: a pod that was not meant neither uses the reservation nor ends it.
        """
        users = self._users.get(reservation.uid, {})
        return [
            user
            for pod, user in users.values()
            if pod.node == reservation.node and self._owners.accept(reservation.uid, pod)
        ]

    def node_is_gone(self, node: str) -> bool:
        """The node is not there, and the view is complete enough to say so."""
        return self.is_complete and node not in self.nodes

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
        old = self._uses.pop(pod_name, None)
        if old is not None:
            self._users[old].pop(pod_name, None)
            if not self._users[old]:
                del self._users[old]
        new = "" if entry.deleted else self._read_user(pod_name, entry.value)
        for uid in sorted({old or "", new} - {""}):
            if uid in self._name_of:
                self._mark(self._name_of[uid])

    def _read_user(self, pod_name: PodName, value: bytes) -> str:
        """The uid of the reservation that this pod draws on, noted; empty when it draws on none."""
        if names.ANNOTATION_RESERVATION_ALLOCATED.encode() not in value:
            return ""
        try:
            pod = _POD.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return ""
        uid = noted_reservation(pod.template.annotations.get(names.ANNOTATION_RESERVATION_ALLOCATED, ""))
        if not pod.node or pod.phase in FINISHED or not uid:
            return ""
        user = User(pod.uid, pod.namespace, pod.name, pod.template.requests)
        self._users.setdefault(uid, {})[pod_name] = (pod, user)
        self._uses[pod_name] = uid
        return uid
