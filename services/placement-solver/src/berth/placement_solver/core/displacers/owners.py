"""Owners of Reservations make those leave who borrow what is reserved for them.

Whatever is configured about preemption: a borrower took its place on that condition. Priority does not count, the
Reservation's was above the borrower's when it lent. An owner never borrows for the place it draws on, and who draws on
a Reservation does not leave for this reason, so no two displace each other in turns.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.on_reservations import OnReservations
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.reserved import Offer
from berth.rules.preemption import BY_OWNER
from berth.rules.reservation_borrowers import ignores_reservations
from berth.transaction.claims import Claim

NAME: Final = "ReservationOwner"


class OwnersReturn(OnReservations):
    """Pods that borrow of a Reservation leave for an owner of it."""

    name = NAME
    reason = BY_OWNER

    def applies(self, candidate: Candidate, offer: Offer) -> bool:
        """It has lent something."""
        return bool(offer.holder.loans)

    def may_leave(self, candidate: Candidate, offer: Offer, holder: Pod, claim: Claim) -> bool:
        """It borrows of this Reservation."""
        return (claim.name, claim.uid) in offer.holder.loans and ignores_reservations(holder.template.labels)
