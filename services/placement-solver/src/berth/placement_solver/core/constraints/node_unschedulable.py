"""NodeUnschedulable: a cordoned node takes only pods that tolerate its mark."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.taints import UNSCHEDULABLE_REASON, UNSCHEDULABLE_TAINT, Tolerations


class NodeUnschedulable:
    """Asked for pods without the toleration alone, so its query says nothing."""

    name = "NodeUnschedulable"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> bool | None:
        """See `Constraint`."""
        return None if Tolerations(spec.template.tolerations).tolerate(UNSCHEDULABLE_TAINT) else True

    def mask(self, query: bool, rows: Rows) -> Mask:
        """See `Constraint`."""
        mask = np.ones(self._nodes.marked[rows].shape, np.bool_)
        for place, row in marked(self._nodes, rows):
            mask[place] = self.admits(query, row)
        return mask

    def admits(self, query: bool, row: int) -> bool:
        """See `Constraint`."""
        node = self._nodes.states[row]
        return node is None or not node.unschedulable

    def filter(self, query: bool, target: Target) -> Rejection | None:
        """See `Constraint`."""
        return None if self.admits(query, target.row) else Rejection((UNSCHEDULABLE_REASON,), resolvable=False)

    def rejections(self, query: bool, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(UNSCHEDULABLE_REASON, ~self.mask(query, rows), resolvable=False)]


def marked(nodes: Nodes, rows: Rows) -> Iterator[tuple[int, int]]:
    """The rows that are tainted, cordoned or alike, each with its place among those asked about."""
    places = np.flatnonzero(nodes.marked[rows])
    if not places.size:
        return iter(())
    found = np.arange(len(nodes.marked))[rows][places]
    return zip(places.tolist(), found.tolist(), strict=True)
