"""Pods as other pods see them, with their own terms: made once for all that cannot be told apart."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Spec
from berth.placement_solver.core.tallies.domains import LabelDomains
from berth.placement_solver.core.tallies.interned import Interned
from berth.placement_solver.core.tallies.peers import Peers, terms_key
from berth.rules.pod_terms import Peer, PodTerms, compile_pod_terms, merged_affinity

PODS_MAX: Final = 4096


class AffinePod:
    """A pod that is to be placed. `verdicts` belongs to the constraint: one for each row, as things were at `stamp`."""

    __slots__ = ("peer", "stamp", "terms", "verdicts")

    def __init__(self, peer: Peer, terms: PodTerms) -> None:
        self.peer = peer
        self.terms = terms
        self.stamp: object = None
        self.verdicts: npt.NDArray[np.int8] = np.zeros(0, np.int8)


class AffinePods:
    """The pods that somebody asks about."""

    def __init__(self, nodes: Nodes, domains: LabelDomains, peers: Peers) -> None:
        self.nodes = nodes
        self.domains = domains
        self.peers = peers
        self._known: Interned[AffinePod] = Interned(PODS_MAX)

    def of(self, spec: Spec) -> AffinePod:
        """The pod, or the Reservation as if it were one."""
        template = spec.template
        # No API server has merged the label keys of a Reservation's template.
        affinity = template.affinity if spec.name[0] else merged_affinity(template.affinity, template.labels)
        key = (spec.namespace, frozenset(template.labels.items()), terms_key(affinity))
        return self._known.of(
            key,
            lambda: AffinePod(
                Peer(spec.namespace, template.labels), compile_pod_terms(affinity, spec.namespace, template.labels)
            ),
        )
