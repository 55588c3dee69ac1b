"""InterPodAffinity: pods that want to be in one domain with others, that keep others away, or are kept away."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts import subjects
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    NOTHING,
    Depends,
    Hypothesis,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.placement_solver.core.tallies.affine_pods import AffinePod, AffinePods
from berth.placement_solver.core.tallies.domains import NOWHERE, Domains
from berth.placement_solver.core.tallies.peers import OwnedTerm, PeerClass, Peers, terms_key
from berth.placement_solver.core.tallies.row_counts import RowCounts
from berth.rules.inter_pod_affinity import (
    AFFINITY_REASON,
    ANTI_AFFINITY_REASON,
    EXISTING_ANTI_AFFINITY_REASON,
)
from berth.rules.pod_terms import PodTerm
from berth.transaction.claims import Claim

_FITS, _ALONE, _UNWANTED, _REFUSED = 0, 1, 2, 3

_REJECTIONS: Final = {
    _ALONE: Rejection((AFFINITY_REASON,), resolvable=False),
    _UNWANTED: Rejection((ANTI_AFFINITY_REASON,)),
    _REFUSED: Rejection((EXISTING_ANTI_AFFINITY_REASON,)),
}


class _Away(NamedTuple):
    """Pods that must not be in one domain with the pod, by row: those that match its `term`, or that own a term which
    it matches."""

    counts: RowCounts
    term: PodTerm
    owned: OwnedTerm | None = None

    @property
    def verdict(self) -> int:
        """What a node in such a domain is told."""
        return _UNWANTED if self.owned is None else _REFUSED

    def counted(self, cls: PeerClass, peers: Peers) -> int:
        """How often a pod of the class is counted: an owner once for each time that it has the term."""
        if self.owned is not None:
            return sum(weight for owned, weight in cls.owned if owned is self.owned)
        return int(self.term.matches(cls.peer, peers.labels_of(cls.peer)))


class InterPodAffinity:
    """The query is the pod, as other pods see it, with its own terms; shared by all that cannot be told apart.

    A pod without terms of its own is asked about as soon as any pod, placed or waiting, has anti-affinity against it.
    """

    name = "InterPodAffinity"
    depends = Depends.NODE | Depends.PEERS
    exact = True

    def __init__(self, pods: AffinePods) -> None:
        self._pods = pods
        self._nodes: Nodes = pods.nodes
        self._peers: Peers = pods.peers

    def prefilter(self, spec: Spec) -> AffinePod | Unusable | None:
        """See `Constraint`."""
        if not self._peers.have_terms and not terms_key(spec.template.affinity):
            return None
        pod = self._pods.of(spec)
        if pod.terms.problems:
            return Unusable(pod.terms.problems)
        if pod.terms.affinity or pod.terms.anti_affinity or self._peers.reach(pod.peer).refusing:
            return pod
        return None

    def mask(self, query: AffinePod, rows: Rows) -> Mask:
        """See `Constraint`."""
        found: Mask = self._verdicts(query)[rows] == _FITS
        return found

    def admits(self, query: AffinePod, row: int) -> bool:
        """See `Constraint`."""
        return bool(self._verdicts(query)[row] == _FITS)

    def filter(self, query: AffinePod, target: Target) -> Rejection | None:
        """See `Constraint`."""
        if target.hypothesis == NOTHING:
            return _REJECTIONS.get(int(self._verdicts(query)[target.row]))
        return _REJECTIONS.get(self._verdict(query, target.row, target.hypothesis))

    def rejections(self, query: AffinePod, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        verdicts = self._verdicts(query)[rows]
        return [
            Rejected(rejection.reasons[0], verdicts == verdict, rejection.resolvable)
            for verdict, rejection in _REJECTIONS.items()
        ]

    def accounts(self, query: AffinePod, _claim: Claim) -> tuple[str, ...]:
        """See `Contended`: who owns a required term meets who matches it, where the term looks for pods."""
        terms = [*query.terms.affinity, *query.terms.anti_affinity]
        terms += [owned.term for owned in self._peers.reach(query.peer).refusing if owned.owners]
        return tuple(sorted({_account_of(term) for term in terms}))

    # --- all nodes ---------------------------------------------------------------------------------------------------

    def _verdicts(self, pod: AffinePod) -> npt.NDArray[np.int8]:
        nodes = self._nodes
        wanted = self._wanted(pod)
        away = self._away(pod)
        involved = [each.counts for each in away] + ([wanted] if wanted is not None else [])
        stamp = (
            nodes.reshaped.end,
            len(nodes.alive),
            self._peers.labels_of(pod.peer),
            *((each, each.version) for each in involved),
        )
        if pod.stamp == stamp:
            return pod.verdicts
        verdicts = np.zeros(len(nodes.alive), np.int8)
        if wanted is not None:
            verdicts[~self._company(pod, wanted)] = _ALONE
        for each in away:
            domains = self._domains(each.term.key)
            there = each.counts.by_domain(domains) > 0
            if there.any():
                verdicts[there[domains.codes] & (verdicts == _FITS)] = each.verdict
        pod.verdicts, pod.stamp = verdicts, stamp
        return verdicts

    def _company(self, pod: AffinePod, wanted: RowCounts) -> Mask:
        """Rows with a pod that matches all terms in each term's domain; all with the keys, if it may be the first."""
        has_keys = np.ones(len(self._nodes.alive), np.bool_)
        company = has_keys.copy()
        nobody = True
        for term in pod.terms.affinity:
            domains = self._domains(term.key)
            there = wanted.by_domain(domains) > 0
            has_keys &= domains.codes != NOWHERE
            company &= there[domains.codes]
            nobody = nobody and not there.any()
        return has_keys if nobody and self._matches_itself(pod) else company

    # --- one node ----------------------------------------------------------------------------------------------------

    def _verdict(self, pod: AffinePod, row: int, hypothesis: Hypothesis) -> int:
        moved = [
            (cls, sign)
            for claims, sign in ((hypothesis.gone, -1), (hypothesis.there, 1))
            for claim in claims
            if (cls := self._peers.class_of(claim)) is not None
        ]
        wanted = self._wanted(pod)
        if wanted is not None:
            labels_of = self._peers.labels_of
            more = sum(sign for cls, sign in moved if pod.terms.match_all(cls.peer, labels_of(cls.peer)))
            if not self._has_company(pod, wanted, row, more):
                return _ALONE
        for each in self._away(pod):
            domains = self._domains(each.term.key)
            code = domains.codes[row]
            more = sum(sign * each.counted(cls, self._peers) for cls, sign in moved)
            if code != NOWHERE and each.counts.by_domain(domains)[code] + more > 0:
                return each.verdict
        return _FITS

    def _has_company(self, pod: AffinePod, wanted: RowCounts, row: int, more: int) -> bool:
        company, total = True, 0
        for term in pod.terms.affinity:
            domains = self._domains(term.key)
            code = domains.codes[row]
            if code == NOWHERE:
                return False
            sums = wanted.by_domain(domains)
            company = company and sums[code] + more > 0
            total += int(sums.sum()) + more
        return company or (total == 0 and self._matches_itself(pod))

    # --- what is counted ---------------------------------------------------------------------------------------------

    def _wanted(self, pod: AffinePod) -> RowCounts | None:
        return self._peers.matching(pod.terms.affinity) if pod.terms.affinity else None

    def _away(self, pod: AffinePod) -> list[_Away]:
        """In the order of the reasons: first whom the pod keeps away, then who keeps it away."""
        found = [_Away(self._peers.matching((term,)), term) for term in pod.terms.anti_affinity]
        found += [_Away(owned.counts, owned.term, owned) for owned in self._peers.reach(pod.peer).refusing]
        return found

    def _domains(self, key: str) -> Domains:
        return self._pods.domains.of(key)

    def _matches_itself(self, pod: AffinePod) -> bool:
        return pod.terms.match_all(pod.peer, self._peers.labels_of(pod.peer))


def _account_of(term: PodTerm) -> str:
    """One for each namespace, and one for all terms that reach further: a plan stamps few accounts."""
    is_wide = term.selects_namespace is not None or len(term.namespaces) != 1
    return subjects.peers_account("" if is_wide else next(iter(term.namespaces)))
