"""NodeName: who asks for one node by name goes there or nowhere."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target

REASON = "node(s) didn't match the requested node name"


class NodeName:
    """The query is the name."""

    name = "NodeName"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> str | Rejection | None:
        """See `Constraint`."""
        row = self._nodes.rows.get(spec.required_node)
        if spec.required_node and (row is None or not self._nodes.alive[row]):
            return Rejection((f"node {spec.required_node} does not exist",), resolvable=False)
        return spec.required_node or None

    def mask(self, query: str, rows: Rows) -> Mask:
        """See `Constraint`."""
        mask = np.zeros(len(self._nodes.marked), np.bool_)
        row = self._nodes.rows.get(query)
        if row is not None:
            mask[row] = True
        found: Mask = mask[rows]
        return found

    def admits(self, query: str, row: int) -> bool:
        """See `Constraint`."""
        return self._nodes.names[row] == query

    def filter(self, query: str, target: Target) -> Rejection | None:
        """See `Constraint`."""
        return None if self.admits(query, target.row) else Rejection((REASON,), resolvable=False)

    def rejections(self, query: str, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(REASON, ~self.mask(query, rows), resolvable=False)]
