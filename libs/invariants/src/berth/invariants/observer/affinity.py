"""Pods that must be apart, or together, at the moment of each decision and once all is over (I18)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from berth.contracts.ledger import Decision
from berth.invariants.counts import Excuse
from berth.invariants.observer.peers import Look, Peers, Place, Spot
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.inter_pod_affinity import AffinityCounts
from berth.rules.pod_terms import NO_LABELS, Placed, PodTerm, PodTerms

PROMISE: Final = "I18"


class _Clash(NamedTuple):
    """Another pod in one domain with the one that is placed, and a term of one of the two that the other matches."""

    spot: Spot
    term: PodTerm
    is_owner: bool
    """The other one owns the term."""


class AffinityLaw:
    """Required affinity and anti-affinity."""

    def __init__(self, peers: Peers, verdicts: Verdicts) -> None:
        self._peers = peers
        self._verdicts = verdicts
        self._excused: dict[str, Excuse] = {}
        """By uid: what excused the decision that it holds."""

    def decided(self, decision: Decision) -> None:
        """A pod is about to hold what was decided."""
        look, place = self._peers.looks.get(decision.uid), self._peers.places.get(decision.node)
        self._excused.pop(decision.uid, None)
        if look is None or place is None:
            return
        clashes = list(self._clashes(decision.uid, look, place))
        wanted = look.terms.affinity
        if not (clashes or wanted or look.terms.anti_affinity or self._is_kept_away(decision.uid, look)):
            return
        known = [clash for clash in clashes if self._knew(decision, look, clash)]
        is_alone = bool(wanted) and not self._has_company(look, place, self._peers.others(decision.uid))
        excuse = self._excuse_of(decision, look, clashes, known, is_alone) if clashes or is_alone else None
        if excuse is not None:
            self._excused[decision.uid] = excuse
            self._verdicts.excused(PROMISE, excuse)
            return
        self._verdicts.judged(PROMISE)
        name = f"{decision.namespace}/{decision.name}"
        for clash in known:
            text = f"{name}: is decided for {place.name}, {_evidence(clash, place)}"
            self._verdicts.add(PROMISE, f"{name}, plan {decision.plan}", text)
        if is_alone:
            text = f"{name}: is decided for {place.name}, where nobody is whom it has to be with"
            self._verdicts.add(PROMISE, f"{name}, plan {decision.plan}", text)

    def at_rest(self) -> Iterator[str]:
        """Pods that Berth has placed in one domain although one keeps the other away."""
        for guard, place in self._peers.guarded(""):
            for spot, other in self._peers.others(guard.uid):
                for term in guard.look.terms.anti_affinity:
                    if not spot.is_matched_in(term, self._peers.namespaces):
                        continue
                    if not (guard.bound_version and spot.bound_version and guard.is_ours and spot.is_ours):
                        continue
                    if not _are_together(term, place, other):
                        self._verdicts.judged(PROMISE)
                    elif (excuse := self._excuse_at_rest(guard, spot, term)) is not None:
                        self._verdicts.excused(PROMISE, excuse)
                    else:
                        self._verdicts.judged(PROMISE)
                        domain = f"{term.key} {place.labels[term.key]}"
                        yield f"{guard.text} keeps {spot.text} out of {domain}; both are there"

    # --- inside ------------------------------------------------------------------------------------------------------

    def _clashes(self, uid: str, look: Look, place: Place) -> Iterator[_Clash]:
        peers = self._peers
        if look.terms.anti_affinity:
            for spot, other in peers.others(uid):
                for term in look.terms.anti_affinity:
                    if _are_together(term, place, other) and spot.is_matched_in(term, peers.namespaces):
                        yield _Clash(spot, term, is_owner=False)
        for spot, other in peers.guarded(uid):
            for term in spot.look.terms.anti_affinity:
                if _are_together(term, place, other) and self._matches(term, look):
                    yield _Clash(spot, term, is_owner=True)

    def _is_kept_away(self, uid: str, look: Look) -> bool:
        """Whether somebody, wherever it is, keeps the pod away."""
        guards = self._peers.guarded(uid)
        return any(self._matches(term, look) for spot, _ in guards for term in spot.look.terms.anti_affinity)

    def _matches(self, term: PodTerm, look: Look) -> bool:
        return term.matches(look.peer, self._peers.namespaces.get(look.peer.namespace, NO_LABELS))

    def _excuse_of(
        self, decision: Decision, look: Look, clashes: list[_Clash], known: list[_Clash], is_alone: bool
    ) -> Excuse | None:
        """Why what is wrong with the decision is held against nobody; None: it is held against its solver."""
        peers = self._peers
        if decision.pod_version < look.version and not peers.knew_look(decision, look):
            return Excuse.OLDER_POD
        moved_s = peers.unseen_change(_keys(look.terms, clashes))
        if moved_s is not None:
            return peers.sight.excuse(moved_s)
        if known or (is_alone and self._is_alone_either_way(decision, look)):
            return None
        return peers.why_not(decision, clashes[0].spot) if clashes else Excuse.UNSEEN

    def _knew(self, decision: Decision, look: Look, clash: _Clash) -> bool:
        """Whether the other one must have been counted. A plan shares the account of a term with all whose pods own one
        there, or match it, as far as their solver knew that there is such a term."""
        if clash.is_owner:
            return self._peers.knew_owner(decision, clash.spot)
        other = clash.spot.decision
        meets = clash.spot.look.meets(look) or (other is not None and look.version <= other.basis)
        return self._peers.knew(decision, clash.spot, meets=meets)

    def _has_company(self, look: Look, place: Place, others: Iterable[tuple[Spot, Place]]) -> bool:
        counts = AffinityCounts(look.peer, PodTerms(affinity=look.terms.affinity), self._peers.namespaces)
        for spot, there in others:
            counts.add(Placed(spot.look.peer, spot.node), there)
        return counts.unfit(place) is None

    def _is_alone_either_way(self, decision: Decision, look: Look) -> bool:
        """Whether there is no company for it, neither with all who may have been counted, nor as the first of all."""
        peers, place = self._peers, self._peers.places[decision.node]
        others = list(peers.others(decision.uid))
        known = [(spot, there) for spot, there in others if peers.knew(decision, spot, meets=spot.look.meets(look))]
        maybe = [*others, *peers.maybe_there(decision)]
        return not self._has_company(look, place, known) and not self._has_company(look, place, maybe)

    def _excuse_at_rest(self, guard: Spot, spot: Spot, term: PodTerm) -> Excuse | None:
        if guard.decision is None or spot.decision is None:
            return Excuse.LOSS
        later = max(guard, spot, key=lambda each: each.since_s)
        moved = any(self._peers.was_moved(each.node, term.key, each.since_s) for each in (guard, spot))
        if guard.is_relabelled or spot.is_relabelled or moved:
            return Excuse.RELABELLED
        return self._excused.get(later.uid)


def _are_together(term: PodTerm, one: Place, other: Place) -> bool:
    value = one.labels.get(term.key)
    return value is not None and value == other.labels.get(term.key)


def _keys(terms: PodTerms, clashes: Iterable[_Clash]) -> set[str]:
    return {term.key for term in terms.affinity} | {clash.term.key for clash in clashes}


def _evidence(clash: _Clash, place: Place) -> str:
    domain = f"{clash.term.key} {place.labels[clash.term.key]}"
    how = "which keeps it away" if clash.is_owner else "which it keeps away"
    return f"where {clash.spot.text} on {clash.spot.node}, {how}, is in {domain}"
