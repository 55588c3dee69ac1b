"""NodeAffinity: the node selector and the required node affinity of a pod."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    Depends,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.rules.node_affinity import REASON, NodeRule, compile_node_rule


class NodeAffinity:
    """The query is the compiled rule; a pod that restricts nothing has none."""

    name = "NodeAffinity"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> NodeRule | Unusable | None:
        """See `Constraint`."""
        rule = compile_node_rule(spec.template.node_selector, spec.template.affinity)
        if rule.problems:
            return Unusable(rule.problems)
        return None if rule.unrestricted else rule

    def mask(self, query: NodeRule, rows: Rows) -> Mask:
        """See `Constraint`."""
        states, matches = self._nodes.states, query.matches
        asked = np.arange(len(self._nodes.marked))[rows].tolist()
        return np.array(
            [(node := states[row]) is not None and matches(node.labels, node.name) for row in asked], np.bool_
        )

    def admits(self, query: NodeRule, row: int) -> bool:
        """See `Constraint`."""
        node = self._nodes.states[row]
        return node is not None and query.matches(node.labels, node.name)

    def filter(self, query: NodeRule, target: Target) -> Rejection | None:
        """See `Constraint`."""
        return None if self.admits(query, target.row) else Rejection((REASON,), resolvable=False)

    def rejections(self, query: NodeRule, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        return [Rejected(REASON, ~self.mask(query, rows), resolvable=False)]
