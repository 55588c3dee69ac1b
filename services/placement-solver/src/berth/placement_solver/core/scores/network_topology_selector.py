"""NetworkTopologySelector: near the pods that carry the same `network-topology-selector`, tight places first."""

from __future__ import annotations

import numpy as np

from berth.contracts.state import PodTemplate
from berth.placement_solver.core.network import Network
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.placement_solver.core.tallies.relatives import Relatives, selector_of
from berth.rules.network_topology.selector import ranked, scores

NAME = "NetworkTopologySelector"


def has_selector(template: PodTemplate) -> bool:
    """Whether a pod wants to be near others."""
    return bool(selector_of(template))


class NetworkTopologySelector:
    """The query is the template. Nodes that lie nowhere in the network come last."""

    name = NAME
    depends = Depends.NODE | Depends.PEERS

    def __init__(self, network: Network, relatives: Relatives) -> None:
        self._network = network
        self._relatives = relatives

    def prescore(self, spec: Spec) -> PodTemplate | None:
        """See `Score`."""
        return spec.template if self._network.is_known and has_selector(spec.template) else None

    def raw(self, query: PodTemplate, rows: RowArray) -> Floats:
        """See `Score`."""
        found = self._network.row_tree()
        place = np.full(len(self._network.in_tree()), -1, np.int64)
        place[found.rows] = np.arange(len(found.rows))
        candidates = place[rows]
        lies = candidates >= 0
        order = ranked(found.tree, candidates[lies], self._relatives.counts(query)[found.rows])
        rank = np.zeros(len(found.rows), np.int64)
        rank[order] = np.arange(len(order))
        result = np.full(len(rows), float(len(order)))
        result[lies] = rank[candidates[lies]]
        return -result

    def normalise(self, query: PodTemplate, raw: Floats, rows: RowArray) -> Floats:
        """See `Score`."""
        ranks = (-raw).astype(np.int64)
        count = int(ranks.max(initial=0)) + 1
        rated: Floats = scores(count)[ranks].astype(np.float64)
        return rated
