"""Which nodes match rules about their labels, kept for each rule and renewed node by node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Mask, Rows
from berth.placement_solver.core.tallies.interned import Interned
from berth.rules.node_affinity import NodeTest

RULES_MAX: Final = 256
FEW: Final = 16
"""Rows that are looked at one by one."""


class _Matches:
    """Which rows match a rule, as the nodes were at a position of their log."""

    __slots__ = ("mask", "position")

    def __init__(self) -> None:
        self.mask: Mask = np.zeros(0, np.bool_)
        self.position = 0


class RuleMasks:
    """Many classes of pods have the same rule: which nodes match is kept for each, and follows the nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._matches: Interned[_Matches] = Interned(RULES_MAX)

    def of(self, key: bytes, matches: NodeTest, rows: Rows) -> Mask:
        """Which of the rows match; `key` stands for the rule."""
        if not isinstance(rows, slice) and rows.size <= FEW:
            return self._look(matches, rows.tolist())
        nodes, found = self._nodes, self._matches.of(key, _Matches)
        end, known = nodes.reshaped.end, found.mask.size
        changed = nodes.reshaped.since(found.position) if known else None
        if known < len(nodes):  # a new row enters the log when its node is seen
            found.mask = np.pad(found.mask, (0, len(nodes) - known))
        if changed is None:
            found.mask[:] = self._look(matches, range(len(nodes)))
        elif changed:
            found.mask[changed] = self._look(matches, changed)
        found.position = end
        mask: Mask = found.mask[rows].copy()
        return mask

    def _look(self, matches: NodeTest, rows: Iterable[int]) -> Mask:
        states = self._nodes.states
        return np.array(
            [(node := states[row]) is not None and matches(node.labels, node.name) for row in rows], np.bool_
        )
