"""TaintToleration: the fewer PreferNoSchedule taints that the pod does not tolerate, the better."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.scores.normalise import by_highest
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.rules.taints import Tolerations


class TaintTolerationScore:
    """Rated by the number of such taints; the query is the pod's tolerations."""

    name = "TaintToleration"
    depends = Depends.NODE

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prescore(self, spec: Spec) -> Tolerations:
        """Every pod is rated, since a node may have such a taint."""
        return Tolerations(spec.template.tolerations)

    def raw(self, query: Tolerations, rows: RowArray) -> Floats:
        """How many of the node's soft taints are not tolerated."""
        counts = np.zeros(rows.shape)
        for at in map(int, np.flatnonzero(self._nodes.marked[rows])):
            node = self._nodes.states[rows[at]]
            if node is not None:
                counts[at] = query.count_soft_untolerated(node.taints)
        return counts

    def normalise(self, query: Tolerations, raw: Floats, rows: RowArray) -> Floats:
        """The highest count becomes 0, none 100."""
        return by_highest(raw, reverse=True)
