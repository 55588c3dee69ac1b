"""Which nodes are near to the pods that a pod wants to be near to (annotation `network-topology-selector`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.rules.network_topology.order import in_order
from berth.rules.network_topology.tree import Ints, Tree

SCORE_MAX: Final = 100


def ranked(tree: Tree, candidates: Ints, existing: Ints) -> Ints:
    """The candidates, as places among the nodes of the tree, the best first.

    `existing`: how many of those pods each node has. Near before far, then where fewer other candidates are.
    """
    offered = np.zeros(len(tree.nodes), np.int64)
    offered[candidates] = 1
    return in_order(
        tree, tree.depth, candidates, existing=tree.sums(existing), slots=tree.sums(offered), fewest_first=True
    )


def scores(count: int) -> Ints:
    """The scores of so many candidates, from the best to the last."""
    if count < 2:
        return np.full(count, SCORE_MAX, np.int64)
    return SCORE_MAX - SCORE_MAX * np.arange(count) // (count - 1)
