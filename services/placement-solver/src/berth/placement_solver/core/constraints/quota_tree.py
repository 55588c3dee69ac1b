"""QuotaTree: the pods of a tree of quotas that has a pool of nodes go to these nodes.

Koordinator's webhook writes node affinity into new pods for this; here it holds whether or not there was a webhook, and
for pods whose namespace came to a quota later.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.pools import Pools
from berth.placement_solver.core.rule_masks import RuleMasks
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.node_affinity import NodeTest, compile_terms
from berth.rules.quota_trees import with_requirements

REASON = "node(s) aren't in the pool of the pod's quota tree"

_encode = msgspec.json.Encoder().encode


class Query(NamedTuple):
    """Whether a node is in the pool, and the name of the tree for people."""

    matches: NodeTest
    key: bytes
    tree: str


class QuotaTree:
    """The query is what QUOTA says of the group that pays; a Reservation is charged to none, and not asked."""

    name = "QuotaTree"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes, pools: Pools) -> None:
        self._nodes = nodes
        self._pools = pools
        self._masks = RuleMasks(nodes)
        self._known: dict[tuple[str, str], tuple[QuotaGroup, Query]] = {}

    def prefilter(self, spec: Spec) -> Query | None:
        """See `Constraint`."""
        group = self._pools.payer(spec)
        if group is None or not group.nodes:
            return None
        key = group.tree, group.name
        known = self._known.get(key)
        if known is None or known[0] is not group:
            terms = with_requirements(None, group.nodes) or ()
            query = Query(compile_terms(terms, "spec.nodeSelector").matches, _encode(group.nodes), group.tree)
            known = self._known[key] = (group, query)
        return known[1]

    def mask(self, query: Query, rows: Rows) -> Mask:
        """See `Constraint`."""
        return self._masks.of(query.key, query.matches, rows)

    def admits(self, query: Query, row: int) -> bool:
        """See `Constraint`."""
        node = self._nodes.states[row]
        return node is not None and query.matches(node.labels, node.name)

    def filter(self, query: Query, target: Target) -> Rejection | None:
        """See `Constraint`."""
        return None if self.admits(query, target.row) else Rejection((REASON,), resolvable=False)

    def rejections(self, query: Query, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        repair = f"label nodes as the profile of tree {query.tree} selects them, or change its nodeSelector"
        return [Rejected(REASON, np.logical_not(self.mask(query, rows)), resolvable=False, repair=repair)]
