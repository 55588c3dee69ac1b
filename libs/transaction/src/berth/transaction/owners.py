"""Which pods a Reservation accepts as its users, and to whom it may have lent. A note that names a Reservation counts
for no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from berth.contracts.kube import ObjectReference
from berth.contracts.state import Pod, Reservation
from berth.rules.records import registry
from berth.rules.reservation_borrowers import ignores_reservations
from berth.rules.reservation_owners import CompiledOwners, PodIdentity, compile_owners

Name = tuple[str, str]


def identity_of(pod: Pod) -> PodIdentity:
    """What of a pod owners look at."""
    return PodIdentity(
        namespace=pod.namespace, name=pod.name, uid=pod.uid, labels=pod.template.labels, owners=tuple(pod.owners)
    )


class Owners:
    """The Reservations of a view, their owners compiled, and the bound pods whose notes name each, by its uid: who
    draws on it, and who borrows of it.

    A pod that the Reservation's status lists already stays a user when its labels change: only cluster-writer, for
    reservation-manager, writes that status.
    """

    def __init__(self) -> None:
        self._reservations: dict[str, tuple[Reservation, CompiledOwners]] = {}
        self._uid_of: dict[str, str] = {}
        self._users: dict[str, set[Name]] = {}
        self._used_by: dict[Name, frozenset[str]] = {}

    def clear(self) -> None:
        """The view starts over."""
        for each in (self._reservations, self._uid_of, self._users, self._used_by):
            each.clear()

    def see(self, name: str, reservation: Reservation | None) -> Iterable[Name]:
        """A Reservation was written or deleted: the pods for which the answer may be another one."""
        old_uid = self._uid_of.pop(name, "")
        old = self._reservations.pop(old_uid, None)
        if reservation is not None:
            same = old is not None and (old_uid, old[0].owners) == (reservation.uid, reservation.owners)
            compiled = old[1] if same and old is not None else compile_owners(reservation.owners)
            self._uid_of[name] = reservation.uid
            self._reservations[reservation.uid] = (reservation, compiled)
            if same and old is not None and _counts(old[0]) == _counts(reservation):
                return ()
        uids = {old_uid, reservation.uid if reservation is not None else ""}
        return sorted({user for uid in uids for user in self._users.get(uid, ())})

    def see_pod(self, name: Name, pod: Pod | None) -> None:
        """A pod was written or deleted."""
        for old in self._used_by.pop(name, ()):
            self._users[old].discard(name)
            if not self._users[old]:
                del self._users[old]
        if pod is None or not pod.node:
            return
        annotations = pod.template.annotations
        used, loans = registry.RESERVATION.read(annotations), registry.BORROWED.read(annotations)
        if not used and not loans:
            return
        named = frozenset({used, *(each.reservation_uid for each in loans)} - {""})
        self._used_by[name] = named
        for uid in named:
            self._users.setdefault(uid, set()).add(name)

    def noting(self, uid: str) -> Iterable[Name]:
        """The bound pods whose notes name the Reservation with this uid, whether it accepts them or not."""
        return self._users.get(uid, ())

    def accept(self, uid: str, pod: Pod) -> bool:
        """The Reservation with this uid is there, on the pod's node, and accepts the pod."""
        known = self._reservations.get(uid)
        if known is None or known[0].node != pod.node:
            return False
        reservation, compiled = known
        return compiled.accept(identity_of(pod)) or any(each.uid == pod.uid for each in reservation.current_owners)

    def lends(self, uid: str, pod: Pod) -> bool:
        """The Reservation with this uid is on the pod's node, and the pod asks to borrow. Whoever could write the note
        has the capacity of the node by now; what counts is that it counts once."""
        known = self._reservations.get(uid)
        return known is not None and known[0].node == pod.node and ignores_reservations(pod.template.labels)


def _counts(reservation: Reservation) -> tuple[Sequence[ObjectReference], str]:
    """What of it notes are compared with, beside its owners."""
    return reservation.current_owners, reservation.node
