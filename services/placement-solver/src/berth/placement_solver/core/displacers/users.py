"""Owners of a Reservation make its users of lower priority leave, and beside those other pods of its node where its
policy lets a user take from the node as well.

This is preemption (E10): the profile has to have it, and priorities fall with each displacement. What victims inside
leave goes back to the Reservation, so that nobody but its owners gains by it.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers import priority
from berth.placement_solver.core.displacers.on_reservations import OnReservations
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.reserved import Offer
from berth.rules.preemption import BY_SCHEDULER, NEVER
from berth.rules.reservation_fit import RESTRICTED
from berth.rules.scheduler_config.plugins import POST_FILTER
from berth.transaction.claims import Claim

NAME: Final = "ReservationUsers"


class UsersGiveWay(OnReservations):
    """Pods of lower priority leave for an owner of the Reservation that they are in."""

    name = NAME
    reason = BY_SCHEDULER

    def applies(self, candidate: Candidate, offer: Offer) -> bool:
        """A user of it has the lower priority, and the pod's profile has preemption."""
        template, pods = candidate.object.template, self._ground.book.pods
        if template.preemption_policy == NEVER or priority.NAME not in candidate.cls.rules.profile.points[POST_FILTER]:
            return False
        users = (pods.get(name) for name, _ in offer.holder.users)
        return any(user is not None and user.template.priority < template.priority for user in users)

    def may_leave(self, candidate: Candidate, offer: Offer, holder: Pod, claim: Claim) -> bool:
        """It is a user of lower priority; or a pod of lower priority in no Reservation, if that helps."""
        if holder.template.priority >= candidate.object.template.priority:
            return False
        if claim.reservation:
            return claim.reservation == offer.holder.claim.uid
        return offer.known.capacity.allocate_policy != RESTRICTED
