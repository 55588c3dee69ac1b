"""Which nodes count for the spread of one pod: those with all its keys, as the inclusion policies have it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Mask
from berth.placement_solver.core.tallies.domains import NOWHERE, LabelDomains
from berth.rules.topology_spread import Incoming, SpreadConstraint


class CountedNodes:
    """One mask of rows for each constraint, brought up to date by the log of reshaped rows."""

    def __init__(
        self,
        nodes: Nodes,
        domains: LabelDomains,
        constraints: Sequence[SpreadConstraint],
        incoming: Incoming,
        *,
        requires_all_keys: bool = True,
    ) -> None:
        self._nodes = nodes
        self._domains = domains
        self._constraints = constraints
        self._incoming = incoming
        self._requires_all_keys = requires_all_keys
        self._included: list[Mask] = [np.zeros(0, np.bool_) for _ in constraints]
        self._masks: list[Mask] = list(self._included)
        self._with_keys: Mask = np.zeros(0, np.bool_)
        self._read_to = -1

    def masks(self) -> list[Mask]:
        """The rows that count, for each constraint."""
        self._refresh()
        return self._masks

    def with_keys(self) -> Mask:
        """The rows that have the keys of all constraints, if that is required."""
        self._refresh()
        return self._with_keys

    def _refresh(self) -> None:
        nodes = self._nodes
        end, size = nodes.reshaped.end, len(nodes.alive)
        if self._read_to == end and len(self._with_keys) == size:
            return
        changed = nodes.reshaped.since(self._read_to) if self._read_to >= 0 else None
        rows = range(len(nodes.states)) if changed is None else changed
        self._included = [
            self._include(each, np.pad(mask, (0, size - len(mask))), rows)
            for each, mask in zip(self._constraints, self._included, strict=True)
        ]
        self._with_keys = np.ones(size, np.bool_)
        if self._requires_all_keys:
            for each in self._constraints:
                self._with_keys &= self._domains.of(each.key).codes != NOWHERE
        self._masks = [mask & self._with_keys for mask in self._included]
        self._read_to = end

    def _include(self, constraint: SpreadConstraint, mask: Mask, rows: Sequence[int]) -> Mask:
        """By the inclusion policies alone."""
        states, incoming = self._nodes.states, self._incoming
        restricts = constraint.honours_affinity and not incoming.rule.unrestricted
        if not restricts and not constraint.honours_taints:
            mask[:] = True
            return mask
        for row in rows:
            node = states[row]
            mask[row] = node is not None and incoming.counts_node(constraint, node)
        return mask
