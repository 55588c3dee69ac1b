"""Pods that want to be, or must not be, in one domain with other pods: Kubernetes' InterPodAffinity.

The definition, worked out from scratch over the nodes and pods of a cluster. It is what to check with;
placing thousands of pods works on running sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from berth.rules.pod_terms import NO_LABELS, NodeLabels, Peer, Placed, PodTerm, PodTerms, Unfit
from berth.rules.selectors import Labels

AFFINITY_REASON: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_REASON: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY_REASON: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

HARD_WEIGHT: Final = 1
"""What required affinity of another pod counts in scores, unless configured (`hardPodAffinityWeight`)."""


Pair = tuple[str, str]
"""A label of nodes and a value of it: a domain."""


class AffinityCounts:
    """What the pods of a cluster mean for one pod that is to be placed, and so which nodes refuse it.

    `namespaces` has the labels of each namespace; one that is not there has none.
    """

    def __init__(self, peer: Peer, terms: PodTerms, namespaces: Mapping[str, Labels]) -> None:
        self._peer = peer
        self._terms = terms
        self._namespaces = namespaces
        self._wanted: Counter[Pair] = Counter()
        self._unwanted: Counter[Pair] = Counter()
        self._refusing: Counter[Pair] = Counter()

    def add(self, pod: Placed, node: NodeLabels, amount: int = 1) -> None:
        """Count a pod that is on the node; with amount -1 it is taken away again."""
        if self._terms.match_all(pod.peer, self._labels_of(pod.peer)):
            for term in self._terms.affinity:
                _count(self._wanted, term, node, amount)
        for term in self._terms.anti_affinity:
            if term.matches(pod.peer, self._labels_of(pod.peer)):
                _count(self._unwanted, term, node, amount)
        for term in pod.terms.anti_affinity:
            if term.matches(self._peer, self._labels_of(self._peer)):
                _count(self._refusing, term, node, amount)

    def unfit(self, node: NodeLabels) -> Unfit | None:
        """Why the node does not take the pod; None: it does, by these rules."""
        if not self._has_company(node):
            return Unfit(AFFINITY_REASON, resolvable=False)
        if any(self._unwanted[pair] > 0 for pair in _pairs(self._terms.anti_affinity, node)):
            return Unfit(ANTI_AFFINITY_REASON)
        if any(self._refusing[pair] > 0 for pair in node.labels.items()):
            return Unfit(EXISTING_ANTI_AFFINITY_REASON)
        return None

    def _has_company(self, node: NodeLabels) -> bool:
        """Each term's domain has a pod that matches all terms, or the pod may be the first of its group."""
        wanted = self._terms.affinity
        if any(term.key not in node.labels for term in wanted):
            return False
        if all(self._wanted[pair] > 0 for pair in _pairs(wanted, node)):
            return True
        nobody_matches = not any(self._wanted.values())
        return nobody_matches and self._terms.match_all(self._peer, self._labels_of(self._peer))

    def _labels_of(self, peer: Peer) -> Labels:
        return self._namespaces.get(peer.namespace, NO_LABELS)


def _count(sums: Counter[Pair], term: PodTerm, node: NodeLabels, amount: int) -> None:
    value = node.labels.get(term.key)
    if value is not None:
        sums[term.key, value] += amount


def _pairs(terms: Iterable[PodTerm], node: NodeLabels) -> list[Pair]:
    return [(term.key, node.labels[term.key]) for term in terms if term.key in node.labels]
