"""NodeAffinity: the node selector and the required node affinity of a pod, and what the configuration adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from berth.contracts import kube
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
from berth.placement_solver.core.tallies.interned import Interned
from berth.rules.node_affinity import CONFLICT_REASON, ENFORCED_REASON, REASON, NodeRule, NodeTest, compile_node_rule

RULES_MAX: Final = 256
FEW: Final = 16
"""Rows that are looked at one by one."""
_EVERYWHERE = compile_node_rule(None, None)
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Query(NamedTuple):
    """The rule of the configuration, which is looked at first, and that of the pod, with what it was compiled from."""

    added: NodeRule
    own: NodeRule
    key: bytes


class _Matches:
    """Which rows match a rule, as the nodes were at a position of their log."""

    __slots__ = ("mask", "position")

    def __init__(self) -> None:
        self.mask: Mask = np.zeros(0, np.bool_)
        self.position = 0


class NodeAffinity:
    """The query is the compiled rules; a pod for which nothing is restricted has none.

    Many classes of pods have the same rule: which nodes match is kept for each, and follows the nodes.
    """

    name = "NodeAffinity"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes, added: kube.NodeAffinity | None = None) -> None:
        self._nodes = nodes
        self._added = compile_node_rule(None, added) if added is not None else _EVERYWHERE
        self._matches: Interned[_Matches] = Interned(RULES_MAX)

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
        if not isinstance(rows, slice) and rows.size <= FEW:
            return self._look(query, rows.tolist())
        nodes, found = self._nodes, self._matches.of(query.key, _Matches)
        end, known = nodes.reshaped.end, found.mask.size
        changed = nodes.reshaped.since(found.position) if known else None
        if known < len(nodes):  # a new row enters the log when its node is seen
            found.mask = np.pad(found.mask, (0, len(nodes) - known))
        if changed is None:
            found.mask[:] = self._look(query, range(len(nodes)))
        elif changed:
            found.mask[changed] = self._look(query, changed)
        found.position = end
        mask: Mask = found.mask[rows].copy()
        return mask

    def _look(self, query: Query, rows: Sequence[int]) -> Mask:
        states, rules = self._nodes.states, _restricting(query)
        matches = rules[0].matches if len(rules) == 1 else _both(query)
        return np.array(
            [(node := states[row]) is not None and matches(node.labels, node.name) for row in rows], np.bool_
        )

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
