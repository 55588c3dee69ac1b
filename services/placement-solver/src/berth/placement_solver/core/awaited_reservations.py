"""Reservations that STATE shows on a node, and whose capacity RESERVATION does not have yet.

The two come by different ways, and after a loss of the bus a solver has read all Reservations long before
reservation-manager has worked them out. An owner that is placed meanwhile stands beside the capacity that is kept for
it, and takes what others could have had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from berth.contracts.kube import ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.placement_solver.core.owner_index import OwnerIndex
from berth.rules.reservation_match import ReservationRequest
from berth.rules.reservation_owners import CompiledOwners, compile_owners
from berth.transaction.book import FINISHED_PHASES


class _Awaited(NamedTuple):
    owners: Sequence[ReservationOwner]
    compiled: CompiledOwners


class AwaitedReservations:
    """Which Reservations there are whose capacity is on its way, by name."""

    def __init__(self) -> None:
        self._bound: dict[str, Reservation] = {}
        self._published: dict[str, tuple[str, str]] = {}  # uid and node
        self._awaited: dict[str, _Awaited] = {}
        self._index = OwnerIndex()

    def __len__(self) -> int:
        return len(self._awaited)

    def reset_state(self) -> None:
        """STATE starts over."""
        self._bound.clear()
        self._awaited.clear()
        self._index.clear()

    def reset_reserved(self) -> None:
        """RESERVATION starts over."""
        self._published.clear()
        for name in self._bound:
            self._compare(name)

    def see(self, name: str, reservation: Reservation | None) -> bool:
        """STATE shows it, or with None no longer; whether those who wait for its capacity may be tried again."""
        before = self._awaited.get(name)
        if reservation is None or not reservation.node or reservation.deleting or reservation.phase in FINISHED_PHASES:
            self._bound.pop(name, None)
        else:
            self._bound[name] = reservation
        self._compare(name)
        return before is not None and self._awaited.get(name) is not before

    def publish(self, name: str, capacity: ReservedCapacity | None) -> None:
        """RESERVATION says this of it, or with None nothing more."""
        if capacity is None:
            self._published.pop(name, None)
        else:
            self._published[name] = (capacity.uid, capacity.node)
        self._compare(name)

    def of(self, wish: ReservationRequest) -> str | None:
        """The name of one that this pod may own, and asks for if it asks for one; None: it need not wait."""
        for name in (wish.name,) if wish.name else self._index.may_accept(wish.identity):
            each = self._awaited.get(name)
            if each is not None and each.compiled.accept(wish.identity):
                return name
        return None

    def _compare(self, name: str) -> None:
        shown = self._bound.get(name)
        if shown is None or self._published.get(name) == (shown.uid, shown.node):
            self._awaited.pop(name, None)
            self._index.remove(name)
            return
        known = self._awaited.get(name)
        if known is None or known.owners != shown.owners:
            self._index.remove(name)
            self._index.add(name, shown.owners)
            self._awaited[name] = _Awaited(shown.owners, compile_owners(shown.owners))
