"""The reservations there are, by what their owners name, and which of them a pod matches.

The checks of the matching are those of `berth.rules.reservation_match`. Which of those that match have enough, and
which is taken, is `core.reserved_choice`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, get_args

from berth.contracts.base import Reason
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.placement_solver.core.capacity import Capacity, Reserved
from berth.placement_solver.core.named_pods import NamedPods
from berth.placement_solver.core.owner_index import OwnerIndex
from berth.rules.reservation_fit import RESTRICTED, tracked_names
from berth.rules.reservation_match import Check, ReservationRequest, failed_check
from berth.rules.reservation_owners import CompiledOwners, compile_owners


@dataclass(eq=False)
class Known:
    """A reservation as reservation-manager publishes it, with its owners compiled."""

    capacity: ReservedCapacity
    owners: CompiledOwners


class Offer(NamedTuple):
    """A reservation that may be used now, and what it holds."""

    known: Known
    holder: Reserved

    @property
    def name(self) -> str:
        """As its object is called."""
        return self.known.capacity.name

    @property
    def tracked(self) -> frozenset[str]:
        """The resources of which users get nothing from the node beside it; empty where it is not Restricted."""
        capacity = self.known.capacity
        if capacity.allocate_policy != RESTRICTED:
            return frozenset()
        return frozenset(tracked_names(self.holder.claim.amounts, capacity.restricted))


class Reservations:
    """The reservations that may be used, by uid."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self._uid_of: dict[str, str] = {}
        self._index = OwnerIndex()
        self._named = NamedPods()

    def reset(self) -> None:
        """RESERVATION starts over."""
        self.known.clear()
        self._uid_of.clear()
        self._index.clear()
        self._named.clear()

    def may_mean(self, pod: Pod) -> bool:
        """Whether some Reservation may be meant for this pod by itself, and not for all that are like it."""
        return self._named.may_mean(pod)

    def see(self, name: str, capacity: ReservedCapacity | None) -> None:
        """Take in a reservation, or with None its end."""
        old = self._uid_of.pop(name, None)
        if old is not None:
            self._forget(old)
        if capacity is not None:
            self._forget(capacity.uid)
            self._uid_of[name] = capacity.uid
            known = self.known[capacity.uid] = Known(capacity, compile_owners(capacity.owners))
            if not known.owners.problems:
                self._index.add(capacity.uid, capacity.owners)
            self._named.put(capacity.uid, capacity.owners)

    def _forget(self, uid: str) -> None:
        if self.known.pop(uid, None) is not None:
            self._index.remove(uid)
            self._named.remove(uid)

    def may_match(self, wish: ReservationRequest) -> bool:
        """Whether some reservation may be for the pod, used up or not."""
        return bool(self.known) and bool(self._index.may_accept(wish.identity))

    def matching(self, wish: ReservationRequest, capacity: Capacity) -> list[Offer]:
        """Those that match the pod and hold capacity now, by name; amounts are not looked at."""
        may_accept = self._index.may_accept(wish.identity)
        if not may_accept:
            return []
        found = [
            offer
            for uid in may_accept
            if (offer := _offered(self.known[uid], capacity)) is not None and _failed(wish, offer, capacity) is None
        ]
        found.sort(key=lambda offer: offer.name)
        return found

    def lending(self, capacity: Capacity) -> list[Offer]:
        """All that hold capacity and may be used now, for any owner."""
        return [offer for known in self.known.values() if (offer := _offered(known, capacity)) is not None]

    def checked(self, wish: ReservationRequest, capacity: Capacity) -> Iterator[tuple[Offer, Check | None]]:
        """All that hold capacity and may be used now, each with the check that keeps the pod off; None: it matches."""
        may_accept = self._index.may_accept(wish.identity)
        for uid, known in self.known.items():
            offer = _offered(known, capacity)
            if offer is not None:
                yield offer, _failed(wish, offer, capacity) if uid in may_accept else "owners"

    def no_match(self, wish: ReservationRequest, capacity: Capacity) -> Reason:
        """Why a pod that needs a reservation finds none: which check rules out how many of them."""
        counts = Counter(failed for _, failed in self.checked(wish, capacity) if failed is not None)
        ruled_out = ", ".join(f"{counts[check]} by {check}" for check in get_args(Check) if counts[check])
        return Reason(
            code="reservation",
            message="node(s) no reservations match reservation affinity" + (ruled_out and f", ruled out {ruled_out}"),
            repair="create a Reservation that names this pod as owner, or drop the reservation affinity",
        )


def _offered(known: Known, capacity: Capacity) -> Offer | None:
    """The reservation with what it holds, if it may be used now."""
    reserved = known.capacity
    holder = capacity.reserved.get(reserved.uid)
    if holder is None or not reserved.usable or (reserved.allocate_once and holder.users):
        return None
    return Offer(known, holder)


def _failed(wish: ReservationRequest, offer: Offer, capacity: Capacity) -> Check | None:
    claim = offer.holder.claim
    node = capacity.nodes.state(claim.node)
    labels = node.labels if node is not None else {}
    return failed_check(wish, offer.known.capacity, offer.known.owners.accept, labels, claim.amounts)
