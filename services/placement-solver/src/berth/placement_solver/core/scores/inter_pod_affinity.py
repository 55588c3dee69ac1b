"""InterPodAffinity as a preference: the weights of all terms that hold, the pod's own and those of other pods."""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.contracts.kube import Affinity
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.placement_solver.core.tallies.affine_pods import AffinePod, AffinePods
from berth.placement_solver.core.tallies.peers import Kind
from berth.rules.inter_pod_affinity import HARD_WEIGHT

_MAX_SCORE: Final = 100


def prefers_pods(affinity: Affinity | None) -> bool:
    """Whether a pod has preferences of its own about other pods."""
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return any(part is not None and part.preferred_during_scheduling_ignored_during_execution for part in parts)


class InterPodAffinityScore:
    """The query is the pod. The rating is the sum of the weights of all terms that hold, 0 where nothing counts.

    `hard_weight`: what required affinity of another pod counts; `ignore_others`: a pod without preferences of its own
    is not rated (`ignorePreferredTermsOfExistingPods`).
    """

    name = "InterPodAffinity"
    depends = Depends.NODE | Depends.PEERS

    def __init__(self, pods: AffinePods, hard_weight: int = HARD_WEIGHT, *, ignore_others: bool = False) -> None:
        self._pods = pods
        self._hard_weight = hard_weight
        self._ignore_others = ignore_others

    def prescore(self, spec: Spec) -> AffinePod | None:
        """See `Score`."""
        pod = self._pods.of(spec)
        if pod.terms.preferred or (not self._ignore_others and self._pods.peers.reach(pod.peer).rating):
            return pod
        return None

    def raw(self, query: AffinePod, rows: RowArray) -> Floats:
        """See `Score`."""
        peers, sums = self._pods.peers, np.zeros(len(rows))
        rated = [(weight, term.key, peers.matching((term,))) for weight, term in query.terms.preferred]
        for owned in peers.reach(query.peer).rating:
            weight = 1 if owned.kind is Kind.PREFERS else self._hard_weight
            rated.append((weight, owned.term.key, owned.counts))
        for weight, key, counts in rated:
            if weight:
                domains = self._pods.domains.of(key)
                sums += weight * counts.by_domain(domains)[domains.codes[rows]]
        return sums

    def normalise(self, query: AffinePod, raw: Floats, rows: RowArray) -> Floats:
        """See `Score`."""
        if not len(raw) or (spread := raw.max() - raw.min()) == 0:
            return np.zeros(len(raw))
        # As the reference rounds: the quotient first.
        scores: Floats = np.floor(_MAX_SCORE * ((raw - raw.min()) / spread))
        return scores
