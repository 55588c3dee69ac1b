"""How many pods each domain takes where their number in it has to be a multiple of something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from berth.rules.network_topology.tree import Ints, Levels, Tree

Multiples = Mapping[str, int]
"""By layer, what the number of pods in each of its domains has to be a multiple of."""


def usable(tree: Tree, slots: Ints, multiples: Multiples) -> Levels:
    """From the nodes up, what the children of each domain take together, rounded down to its multiple."""
    result: Levels = []
    for at in range(tree.depth, -1, -1):
        level = tree.levels[at]
        if at == tree.depth:
            sums = slots
        else:
            sums = np.zeros(len(level), np.int64)
            np.add.at(sums, tree.levels[at + 1].parents, result[0])
        result.insert(0, rounded(sums, multiples.get(level.layer, 1)))
    return result


def rounded(amounts: Ints, multiple: int) -> Ints:
    """The greatest multiples that are not above the amounts."""
    return amounts if multiple <= 1 else amounts - amounts % multiple


def slots_in_order(asked: Sequence[Ints], free: Sequence[Ints]) -> Ints:
    """How many pods each node takes, one after the other in their order, until the first that does not fit.

    `asked`: for each resource the amounts of the pods; `free`: for each resource what the nodes have left.
    """
    count = len(asked[0]) if asked else 0
    result = np.full(len(free[0]) if free else 0, count, np.int64)
    for amounts, left in zip(asked, free, strict=True):
        result = np.minimum(result, np.searchsorted(np.cumsum(amounts), left, side="right"))
    return result
