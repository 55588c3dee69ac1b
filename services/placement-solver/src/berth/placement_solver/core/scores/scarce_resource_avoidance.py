"""Koordinator's ScarceResourceAvoidance: pods that need nothing scarce keep away from nodes that have it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.nodes import DEVICE_NAMES, Ints, Nodes
from berth.placement_solver.core.scores.normalise import SCORE_MAX
from berth.placement_solver.core.seams import Depends, Floats, Mask, RowArray, Spec
from berth.rules.node_fit import is_scalar_resource
from berth.rules.scheduler_config import ScarceArgs

_NATIVE: Final = frozenset({names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE})


class ScarceQuery(NamedTuple):
    """The names of which the pod requests some."""

    asked: frozenset[str]


class ScarceResourceAvoidanceScore:
    """Rated by which part of what a node has beside the pod's own resources is not scarce, in percent of names.

    100 where nothing scarce would be left unused. `pods` is no name here.
    """

    name = "ScarceResourceAvoidance"
    depends = Depends.NODE | Depends.CAPACITY

    def __init__(self, nodes: Nodes, args: ScarceArgs | None = None) -> None:
        self._nodes = nodes
        self._scarce = frozenset((args or ScarceArgs()).resources)

    def prescore(self, spec: Spec) -> ScarceQuery:
        """What the pod requests."""
        return ScarceQuery(frozenset(name for name, amount in spec.template.requests.items() if amount > 0))

    def raw(self, query: ScarceQuery, rows: RowArray) -> Floats:
        """The score of the names."""
        if not self._scarce - query.asked:
            return np.full(rows.shape, float(SCORE_MAX))
        unused, scarce = np.zeros(rows.shape, np.int64), np.zeros(rows.shape, np.int64)
        for name, column in self._nodes.columns.items():
            if name not in query.asked and (name in _NATIVE or is_scalar_resource(name)):
                self._count(name, self._nodes.allocatable[column, rows] > 0, unused, scarce)
        shown = [self._nodes.states[row] for row in rows.tolist()]
        for name in DEVICE_NAMES - query.asked:
            has = [node is not None and not node.deleting and node.allocatable.get(name, 0) > 0 for node in shown]
            self._count(name, np.array(has, np.bool_), unused, scarce)
        rated = np.where(scarce > 0, (unused - scarce) * SCORE_MAX // np.maximum(unused, 1), SCORE_MAX)
        return rated.astype(np.float64)

    def normalise(self, query: ScarceQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw

    def _count(self, name: str, has: Mask, unused: Ints, scarce: Ints) -> None:
        unused += has
        if name in self._scarce:
            scarce += has
