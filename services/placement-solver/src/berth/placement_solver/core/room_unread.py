"""How long an owner of a Reservation waits for its room, when STATE shows it on a node and RESERVATION does not yet.

The two come by different ways, and after a loss of the bus a solver has read all Reservations long before
reservation-manager has worked them out. A pod placed meanwhile would stand beside the room that is kept for it, and
take what others could have had.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Reason
from berth.contracts.reservation import ReservedRoom
from berth.contracts.state import Reservation
from berth.placement_solver.core.quota_unread import Wait
from berth.rules.reservation_owners import CompiledOwners, PodIdentity, compile_owners
from berth.transaction.book import FINISHED_PHASES

WORKED_OUT_S: Final = 10.0
"""From when STATE showed the Reservation on its node, or RESERVATION began anew. reservation-manager takes a moment."""


class _Unread(NamedTuple):
    owners: CompiledOwners
    until: float


class UnreadRoom:
    """Reservations on a node, and which of them nobody has published yet. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._bound: dict[str, Reservation] = {}
        self._published: dict[str, tuple[str, str]] = {}  # uid and node, by name
        self._unread: dict[str, _Unread] = {}

    def __len__(self) -> int:
        return len(self._unread)

    def reset_state(self) -> None:
        """STATE starts over."""
        self._bound.clear()
        self._unread.clear()

    def reset_rooms(self, now: float) -> None:
        """RESERVATION starts over."""
        self._published.clear()
        self._unread.clear()
        for name in self._bound:
            self._compare(name, now)

    def see(self, name: str, reservation: Reservation | None, now: float) -> None:
        """STATE shows it, or with None no longer."""
        if reservation is None or not reservation.node or reservation.deleting or reservation.phase in FINISHED_PHASES:
            self._bound.pop(name, None)
        else:
            self._bound[name] = reservation
        self._compare(name, now)

    def publish(self, name: str, room: ReservedRoom | None, now: float) -> None:
        """RESERVATION says this of it, or with None nothing more."""
        if room is None:
            self._published.pop(name, None)
        else:
            self._published[name] = (room.uid, room.node)
        self._compare(name, now)

    def wait_of(self, pod: PodIdentity) -> Wait | None:
        """The wait of a pod that may own one of them, as long as the last of these takes; None: it owns none."""
        found = [(each.until, name) for name, each in self._unread.items() if each.owners.accept(pod)]
        if not found:
            return None
        until, name = max(found)
        reason = Reason(
            code="reservation",
            message=f"reservation {name} has a node, its room is not published yet",
            repair="none needed; if this lasts, see whether reservation-manager works",
        )
        return Wait(until, reason)

    def _compare(self, name: str, now: float) -> None:
        shown = self._bound.get(name)
        if shown is None or self._published.get(name) == (shown.uid, shown.node):
            self._unread.pop(name, None)
        elif name not in self._unread:
            self._unread[name] = _Unread(compile_owners(shown.owners), now + WORKED_OUT_S)
