"""Koordinator's choice of a domain for all pods of a job: the lowest layer of which one domain takes them all, there
the tightest domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from berth.rules.network_topology.capacity import Multiples
from berth.rules.network_topology.distribute import Ground, distribute
from berth.rules.network_topology.layers import ROOT
from berth.rules.network_topology.order import in_order
from berth.rules.network_topology.spec import GatherRule, must_gather_layer
from berth.rules.network_topology.tree import Ints

Counts = list[tuple[int, int]]
"""Nodes, as places in the tree, with how many pods each gets, in the order in which they are filled."""


class Wanted(NamedTuple):
    """So many pods, all inside one domain of a layer (the whole cluster: `ROOT`), in these multiples."""

    pods: int
    must_layer: str = ROOT
    multiples: Multiples = {}


def wanted_of(pods: int, rules: Iterable[GatherRule], layers: Sequence[str]) -> Wanted:
    """What a job of so many pods asks for; `layers` from the top down."""
    listed = list(rules)
    multiples = {each.layer: each.multiple for each in listed if each.multiple > 1}
    return Wanted(pods, must_gather_layer(listed, layers), multiples)


def plan(ground: Ground, wanted: Wanted) -> Counts | None:
    """Who gets how many; None: no domain takes all. The slots of the ground are those that the multiples leave."""
    tree = ground.tree
    for level, candidates in _candidates(ground, wanted):
        for domain in in_order(
            tree,
            level,
            candidates,
            existing=ground.existing,
            slots=ground.slots,
            score=ground.score,
            fewest_first=True,
        ):
            counts = distribute(ground, level, int(domain), wanted.pods, wanted.multiples)
            if sum(count for _, count in counts) == wanted.pods:
                return counts
    return None


def considered(ground: Ground, wanted: Wanted) -> list[str]:
    """The domains that the pods had to go into one of, each with its slots."""
    level = ground.tree.level_of(wanted.must_layer)
    if level is None:
        return []
    found = ground.tree.levels[level]
    slots = ground.slots[level]
    return sorted(f"{found.layer}/{name}: {slots[at]}" for at, name in enumerate(found.names))


def filled(counts: Counts) -> list[int]:
    """The node of each pod, pods in their order."""
    return [node for node, count in counts for _ in range(count)]


def _candidates(ground: Ground, wanted: Wanted) -> Iterable[tuple[int, Ints]]:
    """The lowest level on the way down of which domains take all pods, and these domains; nothing where there is
    none."""
    tree = ground.tree
    level = tree.level_of(wanted.must_layer)
    if level is None:
        return
    kept = np.flatnonzero(ground.slots[level] >= wanted.pods)
    if not kept.size:
        return
    while level < tree.depth:
        below = tree.levels[level + 1]
        found = np.flatnonzero(np.isin(below.parents, kept) & (ground.slots[level + 1] >= wanted.pods))
        if not found.size:
            break
        level, kept = level + 1, found
    yield level, kept
