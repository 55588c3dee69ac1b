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


def rows_by_model(nodes: Nodes) -> dict[str, RowArray]:
    """The rows of nodes that have cards, by their model."""
    size = len(nodes)
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero(nodes.gpu_count[:size] * nodes.alive[:size]).tolist():
        found.setdefault(model_of(nodes.states[row]), []).append(row)
    return {model: np.array(rows, np.intp) for model, rows in found.items()}
