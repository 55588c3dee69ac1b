"""Koordinator's NodeNUMAResource as a score: how full a node would be, or the NUMA nodes of it that a pod would lie on.

CPUs that pods have to themselves count as many times as the node shows its cpu. Where a NUMA policy holds, the NUMA
nodes are those that the constraint chooses, and what is in use of them counts pods with CPUs of their own and all
others; elsewhere the node counts as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.constraints.node_numa_resource import NodeNUMAResource
from berth.placement_solver.core.cores import CoresAsked, Verdict
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.scores.amounts import Asked, asked_of, offered, requested
from berth.placement_solver.core.scores.node_resources_fit import Filled, least_allocated, most_allocated
from berth.placement_solver.core.seams import Depends, Floats, Rejection, RowArray, Spec, Target, Unusable
from berth.placement_solver.core.tallies.scored import ScoredTally
from berth.rules.cpus.kubelet import BEST_EFFORT
from berth.rules.cpus.take import MOST_ALLOCATED
from berth.rules.numa.amplified_cpu import amplified_uses
from berth.rules.numa.scores import shown_request, zones_score
from berth.rules.scheduler_config import NumaArgs


class NumaQuery(NamedTuple):
    """The resources that count for the pod, and what it asks of CPUs and NUMA nodes (None: no node gives it any)."""

    asked: tuple[Asked, ...]
    cores: CoresAsked | None


class NodeNUMAResourceScore:
    """Rated by the profile's `scoringStrategy`. A node that cannot give the pod its CPUs has 0."""

    name = NodeNUMAResource.name
    depends = Depends.NODE | Depends.CAPACITY

    def __init__(
        self, nodes: Nodes, tally: ScoredTally, constraint: NodeNUMAResource, args: NumaArgs | None = None
    ) -> None:
        strategy = (args or NumaArgs()).scoring_strategy
        self._nodes = nodes
        self._tally = tally
        self._constraint = constraint
        self._type = strategy.type
        self._weights = strategy.weights
        self._rate = most_allocated if strategy.type == MOST_ALLOCATED else least_allocated

    def prescore(self, spec: Spec) -> NumaQuery | None:
        """Pods that ask for nothing are not rated."""
        requests = spec.template.requests
        if not any(amount > 0 for amount in requests.values()):
            return None
        cores = self._constraint.prefilter(spec)
        return None if isinstance(cores, Unusable) else NumaQuery(asked_of(self._weights, requests), cores)

    def raw(self, query: NumaQuery, rows: RowArray) -> Floats:
        """The weighed mean over the resources that there are, truncated."""
        if query.cores is None:
            return self._of_nodes(query, rows, np.zeros(rows.shape, np.int64))
        cores = self._nodes.cores
        cores.follow()
        verdicts, codes = cores.verdicts(query.cores), cores.make[rows]
        own = np.array([each.own for each in verdicts], np.int64)[codes]
        rated = self._of_nodes(query, rows, own)
        is_refused = np.array([bool(each.reason) for each in verdicts], np.bool_)[codes]
        if own.any():
            is_refused |= (own > 0) & ~self._constraint.mask(query.cores, rows)
        rated[is_refused] = 0.0
        for place in np.flatnonzero(np.array([bool(each.policy) for each in verdicts], np.bool_)[codes]).tolist():
            row, verdict = int(rows[place]), verdicts[int(codes[place])]
            rated[place] = self._of_zones(query.cores, verdict, row, float(rated[place]))
        return rated

    def normalise(self, query: NumaQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw

    def _of_nodes(self, query: NumaQuery, rows: RowArray, own: RowArray) -> Floats:
        """Of whole nodes; `own` is how many CPUs of its own each of them would give the pod."""
        cores = self._nodes.cores
        filled: list[Filled] = []
        for resource, weight, amount in query.asked:
            taken = requested(self._nodes, self._tally, resource, rows)
            added: RowArray | int = amount
            if resource == names.CPU:
                ratios = cores.ratios[rows]
                taken = amplified_uses(taken, cores.pinned[rows], ratios)
                added = amount - 1000 * own + np.ceil(1000 * own * ratios).astype(np.int64)
            filled.append((weight, taken + added, offered(self._nodes, resource, rows)))
        return self._rate(filled).astype(np.float64) if filled else np.zeros(rows.shape)

    def _of_zones(self, asked: CoresAsked, verdict: Verdict, row: int, of_node: float) -> float:
        """Of the NUMA nodes that the pod would lie on; of the node where nothing of it lies on any."""
        found = self._constraint.place(asked, Target(row))
        if isinstance(found, Rejection):
            return 0.0
        node = self._nodes.cores.zones(row)
        zones = node.zones if found.zones is None and verdict.policy == BEST_EFFORT else found.zones
        if zones is None:
            return of_node
        shown = shown_request(asked.amounts, own_cpus=verdict.own, ratio=node.ratio)
        return float(zones_score(self._type, self._weights, zones, capacity=node.capacity, use=node.use, request=shown))
