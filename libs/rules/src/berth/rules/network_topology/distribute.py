"""How a number of pods is spread below one domain."""

from __future__ import annotations

from typing import NamedTuple

from berth.rules.network_topology.capacity import Multiples
from berth.rules.network_topology.order import in_order
from berth.rules.network_topology.tree import Levels, Tree


class Ground(NamedTuple):
    """What is known of each domain: slots that can be used, pods of the same kind that are there, score."""

    tree: Tree
    slots: Levels
    existing: Levels
    score: Levels | None = None


def distribute(ground: Ground, level: int, domain: int, wanted: int, multiples: Multiples) -> list[tuple[int, int]]:
    """How many pods each node below the domain gets, in the order in which they are filled; at most as many as wanted.

    A domain takes what it can of what is wanted, rounded down to its multiple; its children are served those with most
    slots first, each with what is left.
    """
    tree = ground.tree
    taken = min(int(ground.slots[level][domain]), wanted)
    taken -= taken % max(1, multiples.get(tree.levels[level].layer, 1))
    if taken <= 0:
        return []
    if level == tree.depth:
        return [(domain, taken)]
    found: list[tuple[int, int]] = []
    children = in_order(
        tree,
        level + 1,
        tree.children(level, domain),
        existing=ground.existing,
        slots=ground.slots,
        score=ground.score,
        fewest_first=False,
    )
    for child in children:
        part = distribute(ground, level + 1, int(child), taken, multiples)
        found += part
        taken -= sum(count for _, count in part)
        if taken <= 0:
            break
    return found
