"""The labels of all nodes, by key and value, for rules that select few nodes of many.

An answer is kept until the labels of a node change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from berth.contracts.kube import LabelSelector, NodeSelector, NodeSelectorTerm
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Mask, RowArray
from berth.rules.selectors import compile_selector
from berth.rules.volume_binding import reach_test

CACHED_MAX: Final = 1 << 16
NO_LABELS: Final[Mapping[str, str]] = {}


class NodeLabels:
    """Labels by row, and rows by label. `version` rises when the labels of a node change, or a node comes or goes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._position = 0
        self._labels: list[Mapping[str, str]] = []
        self._by_key: dict[str, dict[str, set[int]]] = {}
        self._reached: dict[bytes, RowArray] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Changes with the labels."""
        self._catch_up()
        return self._version

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._nodes)

    def of(self, row: int) -> Mapping[str, str]:
        """The labels of one node."""
        node = self._nodes.states[row]
        return NO_LABELS if node is None else node.labels

    def with_values(self, key: str, values: Iterable[str]) -> Mask:
        """The nodes that have one of these values under a key."""
        self._catch_up()
        mask = np.zeros(len(self), np.bool_)
        by_value = self._of_key(key)
        for value in values:
            mask[list(by_value.get(value, ()))] = True
        return mask

    def having(self, key: str) -> Mask:
        """The nodes that have a key."""
        self._catch_up()
        return self.with_values(key, self._of_key(key))

    def reached(self, affinity: NodeSelector) -> RowArray:
        """The rows of the nodes that the node affinity of a volume admits, rising."""
        self._catch_up()
        key = msgspec.json.encode(affinity)
        rows = self._reached.get(key)
        if rows is None:
            rows = self._reached[key] = self._work_out(affinity)
            if len(self._reached) > CACHED_MAX:
                del self._reached[next(iter(self._reached))]
        return rows

    def selected(self, selector: LabelSelector | None) -> Mask:
        """The nodes that a label selector selects."""
        self._catch_up()
        mask = np.zeros(len(self), np.bool_)
        matches = compile_selector(selector).matches
        wanted = (selector.match_labels or {}) if selector is not None else {}
        rows = range(len(self)) if not wanted else self._of_key(next(iter(wanted))).get(next(iter(wanted.values())), ())
        mask[[row for row in rows if matches(self.of(row))]] = True
        return mask

    def _work_out(self, affinity: NodeSelector) -> RowArray:
        matches = reach_test(affinity)
        candidates: set[int] = set()
        for term in affinity.node_selector_terms:
            candidates.update(self._candidates(term))
        return np.array(sorted(row for row in candidates if matches(self.of(row))), np.intp)

    def _candidates(self, term: NodeSelectorTerm) -> Iterable[int]:
        """Rows among which are all that the term matches."""
        for expression in term.match_expressions or ():
            if expression.operator == "In":
                by_value = self._of_key(expression.key)
                return set().union(*(by_value.get(value, set()) for value in expression.values or ()))
        return range(len(self))

    def _of_key(self, key: str) -> dict[str, set[int]]:
        by_value = self._by_key.get(key)
        if by_value is None:
            by_value = self._by_key[key] = {}
            for row, labels in enumerate(self._labels):
                if key in labels:
                    by_value.setdefault(labels[key], set()).add(row)
        return by_value

    def _catch_up(self) -> None:
        log = self._nodes.reshaped
        if self._position == log.end and len(self._labels) == len(self):
            return
        changed = log.since(self._position)
        fresh = range(len(self._labels), len(self))
        self._labels += [NO_LABELS] * len(fresh)
        rows = range(len(self)) if changed is None else {*changed, *fresh}
        self._position = log.end
        moved = len(fresh) > 0
        for row in rows:
            before, after = self._labels[row], self.of(row)
            if before == after:
                continue
            moved = True
            self._labels[row] = after
            for key, by_value in self._by_key.items():
                if before.get(key) != after.get(key):
                    if key in before:
                        by_value[before[key]].discard(row)
                    if key in after:
                        by_value.setdefault(after[key], set()).add(row)
        if moved:
            self._version += 1
            self._reached.clear()
