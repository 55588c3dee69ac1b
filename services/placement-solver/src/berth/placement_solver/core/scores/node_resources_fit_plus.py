"""Koordinator's NodeResourcesFitPlus: how full a node would be, with a strategy of its own for each resource.

GPUs may be packed and cpu spread under one profile. Only resources count that the pod asks for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berth.placement_solver.core.nodes import AMOUNT_MAX, Ints, Nodes
from berth.placement_solver.core.scores.amounts import offered, requested
from berth.placement_solver.core.scores.node_resources_fit import least_of, most_of
from berth.placement_solver.core.scores.normalise import SCORE_MAX
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.placement_solver.core.tallies.scored import COLUMNS, ScoredTally
from berth.rules.scheduler_config import FitPlusArgs


class PlusAsked(NamedTuple):
    """A resource that counts for a pod: its strategy (empty: none, it scores 0), weight, and what the pod adds."""

    resource: str
    type: str
    weight: int
    amount: int


class PlusQuery(NamedTuple):
    """What counts for the pod; nothing of weight: every node is as good as another."""

    asked: tuple[PlusAsked, ...]


class NodeResourcesFitPlusScore:
    """Rated by the weighed mean over what the pod asks for. A node that lacks a resource has 0 of it, and the weight
    counts."""

    name = "NodeResourcesFitPlus"
    depends = Depends.NODE | Depends.CAPACITY

    def __init__(self, nodes: Nodes, tally: ScoredTally, args: FitPlusArgs | None = None) -> None:
        self._nodes = nodes
        self._tally = tally
        self._resources = (args or FitPlusArgs()).resources

    def prescore(self, spec: Spec) -> PlusQuery:
        """The configured resources of which the pod requests some, with what it adds in scores."""
        requests, scored = spec.template.requests, spec.template.scored
        return PlusQuery(
            tuple(
                PlusAsked(name, of.type, of.weight, min(scored.get(name, requests[name]), AMOUNT_MAX))
                for name, of in self._resources.items()
                if of.weight and requests.get(name, 0) > 0
            )
        )

    def raw(self, query: PlusQuery, rows: RowArray) -> Floats:
        """The weighed mean, truncated; 100 where nothing counts."""
        if not query.asked:
            return np.full(rows.shape, float(SCORE_MAX))
        total = np.zeros(rows.shape, np.int64)
        for each in query.asked:
            if each.type:
                total += each.weight * self._of(each, rows)
        return (total // sum(each.weight for each in query.asked)).astype(np.float64)

    def normalise(self, query: PlusQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw

    def _of(self, each: PlusAsked, rows: RowArray) -> Ints:
        taken = requested(self._nodes, self._tally, each.resource, rows) + each.amount
        if each.resource in COLUMNS:
            taken = taken + self._tally.surplus(each.resource, rows)
        whole = offered(self._nodes, each.resource, rows)
        rated: Ints = np.where(whole > 0, (most_of if each.type == "MostAllocated" else least_of)(taken, whole), 0)
        return rated
