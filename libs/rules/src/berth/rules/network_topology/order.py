"""In which order domains of one layer come."""

from __future__ import annotations

import numpy as np

from berth.rules.network_topology.tree import Ints, Levels, Tree


def in_order(
    tree: Tree,
    level: int,
    domains: Ints,
    *,
    existing: Levels,
    slots: Levels,
    score: Levels | None = None,
    fewest_first: bool,
) -> Ints:
    """These domains of a level, the best first: most pods of the same kind that are there already, then fewest (or
    most) slots, each compared at the domain, then at its parent and so on up; then the highest score, then the name."""
    ancestry = [domains, *tree.ancestors(level, domains)]
    keys: list[Ints] = [-_at(existing, level - up, places) for up, places in enumerate(ancestry)]
    sign = 1 if fewest_first else -1
    keys += [sign * _at(slots, level - up, places) for up, places in enumerate(ancestry)]
    if score is not None:
        keys.append(-score[level][domains])
    keys.append(tree.levels[level].ranks[domains])
    return domains[np.lexsort(keys[::-1])]


def _at(amounts: Levels, level: int, places: Ints) -> Ints:
    """Of some domains of a level; who has no ancestor there counts as 0."""
    return np.where(places >= 0, amounts[level][places], 0)
