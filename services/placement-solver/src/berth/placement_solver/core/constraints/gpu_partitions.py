"""GPUPartitions: a node that gives out whole GPUs in partitions only takes no pod that wants whole cards otherwise."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.constraints.node_unschedulable import marked
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.gpu_partitions import REASON, only_partitions, takes_whole_gpus


class GPUPartitions:
    """Asked for pods that take whole cards alone, so its query says nothing."""

    name = "GPUPartitions"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> bool | None:
        """See `Constraint`."""
        return takes_whole_gpus(spec.template.requests) or None

    def mask(self, query: bool, rows: Rows) -> Mask:
        """See `Constraint`."""
        mask = np.ones(self._nodes.marked[rows].shape, np.bool_)
        for place, row in marked(self._nodes, rows):
            mask[place] = self.admits(query, row)
        return mask

    def admits(self, query: bool, row: int) -> bool:
        """See `Constraint`."""
        node = self._nodes.states[row]
        return node is None or not only_partitions(node.labels)

    def filter(self, query: bool, target: Target) -> Rejection | None:
        """See `Constraint`."""
        return None if self.admits(query, target.row) else Rejection((REASON,), resolvable=False)

    def rejections(self, query: bool, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(REASON, ~self.mask(query, rows), resolvable=False)]
