"""NodeAffinity: the node selector and the required node affinity of a pod, and what the configuration adds to them."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from berth.contracts import kube
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.rule_masks import RuleMasks
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
from berth.rules.node_affinity import CONFLICT_REASON, ENFORCED_REASON, REASON, NodeRule, NodeTest, compile_node_rule

_EVERYWHERE = compile_node_rule(None, None)
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Query(NamedTuple):
    """The rule of the configuration, which is looked at first, and that of the pod, with what it was compiled from."""

    added: NodeRule
    own: NodeRule
    key: bytes


class NodeAffinity:
    """The query is the compiled rules; a pod for which nothing is restricted has none."""

    name = "NodeAffinity"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes, added: kube.NodeAffinity | None = None) -> None:
        self._nodes = nodes
        self._added = compile_node_rule(None, added) if added is not None else _EVERYWHERE
        self._masks = RuleMasks(nodes)

    def prefilter(self, spec: Spec) -> Query | Rejection | Unusable | None:
        """See `Constraint`."""
        rule = compile_node_rule(spec.template.node_selector, spec.template.affinity)
        if rule.problems:
            return Unusable(rule.problems)
        if rule.names is not None and not rule.names:
            return Rejection((CONFLICT_REASON,), resolvable=False)
        if rule.unrestricted and self._added.unrestricted:
            return None
        affinity = spec.template.affinity
        return Query(self._added, rule, _encode((spec.template.node_selector, affinity and affinity.node_affinity)))

    def only(self, query: Query) -> frozenset[str] | None:
        """See `Narrows`."""
        return query.own.names

    def mask(self, query: Query, rows: Rows) -> Mask:
        """See `Constraint`."""
        rules = _restricting(query)
        return self._masks.of(query.key, rules[0].matches if len(rules) == 1 else _both(query), rows)

    def admits(self, query: Query, row: int) -> bool:
        """See `Constraint`."""
        return self._reason(query, row) is None

    def filter(self, query: Query, target: Target) -> Rejection | None:
        """See `Constraint`."""
        reason = self._reason(query, target.row)
        return None if reason is None else Rejection((reason,), resolvable=False)

    def rejections(self, query: Query, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        if query.added.unrestricted:
            return [Rejected(REASON, ~self.mask(query, rows), resolvable=False)]
        reasons = [self._reason(query, row) for row in rows.tolist()]
        return [
            Rejected(text, np.array([reason == text for reason in reasons], np.bool_), resolvable=False)
            for text in (ENFORCED_REASON, REASON)
        ]

    def _reason(self, query: Query, row: int) -> str | None:
        node = self._nodes.states[row]
        if node is not None and not query.added.matches(node.labels, node.name):
            return ENFORCED_REASON
        return None if node is not None and query.own.matches(node.labels, node.name) else REASON


def _restricting(query: Query) -> list[NodeRule]:
    return [rule for rule in (query.added, query.own) if not rule.unrestricted]


def _both(query: Query) -> NodeTest:
    added, own = query.added.matches, query.own.matches
    return lambda labels, name: added(labels, name) and own(labels, name)
