"""For a pod that matches a Reservation others leave its node: who, is what displacers of this kind differ in.

Whether the Reservation serves the pod once they have left is what the rules of its amounts and every constraint of its
node say under that hypothesis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Final

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.one_node import about_to_leave
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.plan import Candidate, Placement
from berth.placement_solver.core.reserved import Offer
from berth.placement_solver.core.reserved_choice import usable
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.transaction.claims import Claim, freed_by

OFFERS_MAX: Final = 64
"""Of so many Reservations that match, those are looked at who might leave."""


class OnReservations(ABC):
    """A displacer for single pods. `stays` says of a pod that it is nobody's victim."""

    name: str
    reason: str
    """That of the victims' condition DisruptionTarget."""

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
        self._ground = ground
        self._solver = ground.solver
        self._stays = stays

    @abstractmethod
    def applies(self, candidate: Candidate, offer: Offer) -> bool:
        """Whether somebody might have to leave for the sake of this Reservation, at a glance."""

    @abstractmethod
    def may_leave(self, candidate: Candidate, offer: Offer, holder: Pod, claim: Claim) -> bool:
        """Whether this bound pod on its node may have to."""

    def concerns(self, refused: Refused) -> bool:
        """A pod by itself that matches a Reservation for which somebody might leave."""
        return not refused.unit.needed and bool(self._offers(refused.unit.candidates[0]))

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """The first Reservation, by name, that serves the pod once others have left its node."""
        (candidate,) = refused.unit.candidates
        pod = candidate.object
        if not isinstance(pod, Pod) or ANYBODY in asking.refused or _has_other_reasons(refused):
            return Nobody()
        with self._ground.nominated.heeded_by((candidate.name,), pod.template.priority):
            for offer in self._offers(candidate):
                found = self._on(candidate, offer, asking)
                if found is not None:
                    return found
        return Nobody()

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether a Reservation on this node serves the pod once all leave who may have to."""
        (candidate,) = refused.unit.candidates
        pod = candidate.object
        if not isinstance(pod, Pod):
            return False
        with self._ground.nominated.heeded_by((candidate.name,), pod.template.priority):
            for offer in self._offers(candidate):
                if offer.holder.claim.node == node:
                    claims = self._leavers(candidate, offer, frozenset(), asking.now_s)
                    if self._drawn(candidate, offer, tuple(claims.values()), asking.plan) is not None:
                        return True
        return False

    def _offers(self, candidate: Candidate) -> list[Offer]:
        wish = candidate.wish
        if wish is None or wish.problem is not None or candidate.cls.refusals or candidate.refusals:
            return []
        matching = self._solver.reservations.matching(wish, self._ground.capacity)
        return [offer for offer in matching if self.applies(candidate, offer)][:OFFERS_MAX]

    def _on(self, candidate: Candidate, offer: Offer, asking: Asking) -> Proposal | None:
        claims = self._leavers(candidate, offer, asking.refused, asking.now_s)
        book = self._ground.book
        pods = {uid: pod for uid, claim in claims.items() if (pod := book.pods.get(claim.name)) is not None}
        # Who matters more is put back first.
        potential = sorted(pods.values(), key=preemption.importance)

        def fits(gone: Collection[Pod]) -> bool:
            leaving = tuple(claims[each.uid] for each in gone)
            return self._drawn(candidate, offer, leaving, asking.plan) is not None

        budgets = preemption.Budgets(self._ground.budgets(), about_to_leave(book))
        chosen = preemption.victims_on(offer.holder.claim.node, potential, budgets, fits)
        if chosen is None or not chosen.victims:
            return None
        leaving = tuple(claims[each.uid] for each in chosen.victims)
        claim = self._drawn(candidate, offer, leaving, asking.plan)
        if claim is None:
            return None
        placement = Placement(candidate, claim, reservation=offer.name)
        return Proposal((placement,), tuple(chosen.victims), reason=self.reason)

    def _leavers(
        self, candidate: Candidate, offer: Offer, refused: Collection[str], now_s: float
    ) -> Mapping[str, Claim]:
        """Bound pods on its node that may have to leave, by uid."""
        book = self._ground.book
        found = {}
        for claim in book.claims_on(offer.holder.claim.node):
            pod = book.pods.get(claim.name)
            if pod is None or not claim.is_bound or pod.uid != claim.uid:
                continue
            if pod.uid in refused or preemption.never_leaves(pod, now_s) or self._stays(pod):
                continue
            if not preemption.why_protected(pod) and self.may_leave(candidate, offer, pod, claim):
                found[pod.uid] = claim
        return found

    def _drawn(self, candidate: Candidate, offer: Offer, gone: tuple[Claim, ...], plan: str) -> Claim | None:
        """What the pod takes of the Reservation once those have left; None: it is not served."""
        wish = candidate.wish
        if wish is None:
            return None
        ignored = candidate.cls.rules.reservation_ignored
        # What they have borrowed of others falls back to those.
        gone = tuple(freed_by(claim, offer.holder.claim.uid) for claim in gone)
        enough = usable(wish, [offer], self._ground.nodes, ignored, gone)
        if next(enough.best_first, None) is None:
            return None
        found = self._solver.draw_on(candidate, offer, plan, gone)
        return found if isinstance(found, Claim) else None


def _has_other_reasons(refused: Refused) -> bool:
    """Quota that keeps it waiting is not freed by anybody here."""
    return any(
        reason.code in ("quota", "invalid", "unsupported") for each in refused.refusals for reason in each.reasons
    )
