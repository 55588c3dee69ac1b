"""TaintToleration: a NoSchedule or NoExecute taint keeps off who does not tolerate it."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.constraints.node_unschedulable import marked
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.taints import UNTOLERATED_REASON, Tolerations


class TaintToleration:
    """The query is what the pod tolerates."""

    name = "TaintToleration"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> Tolerations:
        """See `Constraint`."""
        return Tolerations(spec.template.tolerations)

    def mask(self, query: Tolerations, rows: Rows) -> Mask:
        """See `Constraint`."""
        mask = np.ones(self._nodes.marked[rows].shape, np.bool_)
        for place, row in marked(self._nodes, rows):
            mask[place] = self.admits(query, row)
        return mask

    def admits(self, query: Tolerations, row: int) -> bool:
        """See `Constraint`."""
        node = self._nodes.states[row]
        return node is None or query.first_untolerated(node.taints) is None

    def filter(self, query: Tolerations, target: Target) -> Rejection | None:
        """See `Constraint`."""
        return None if self.admits(query, target.row) else Rejection((UNTOLERATED_REASON,), resolvable=False)

    def rejections(self, query: Tolerations, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(UNTOLERATED_REASON, ~self.mask(query, rows), resolvable=False)]
