"""Models of cards, by the label of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.contracts import names
from berth.contracts.state import Node
from berth.placement_solver.core.seams import RowArray

if TYPE_CHECKING:
    from berth.placement_solver.core.nodes import Nodes


def model_of(node: Node | None) -> str:
    """The model of its cards; empty where nothing is said."""
    return "" if node is None else node.labels.get(names.LABEL_GPU_MODEL, "")


class Models:
    """The models of the cards of all `nodes` as a column, brought up to date where labels have changed."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.names: list[str] = []
        """By number."""
        self._numbers: dict[str, int] = {}
        self._column = np.zeros(0, np.intp)
        self._at = 0

    def of(self, rows: RowArray) -> RowArray:
        """The number of the model of each row."""
        log, size, known = self.nodes.reshaped, len(self.nodes), self._column.size
        changed = log.since(self._at) if known else None
        self._at = log.end
        if known < size:
            self._column = np.concatenate([self._column, np.zeros(size - known, np.intp)])
        for row in range(size) if changed is None else {*changed, *range(known, size)}:
            model = model_of(self.nodes.states[row])
            number = self._numbers.setdefault(model, len(self._numbers))
            if number == len(self.names):
                self.names.append(model)
            self._column[row] = number
        return self._column[rows]

    def rows(self) -> dict[str, RowArray]:
        """The rows of nodes that have cards, by their model."""
        size = len(self.nodes)
        rows = np.flatnonzero(self.nodes.gpu_count[:size] * self.nodes.alive[:size])
        numbers = self.of(rows)
        return {self.names[number]: rows[numbers == number] for number in np.flatnonzero(np.bincount(numbers)).tolist()}
