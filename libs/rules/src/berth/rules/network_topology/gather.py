"""The plan of a gang on the tree: where as many of its pods as can be go, in as few domains as will do."""

from __future__ import annotations

from typing import NamedTuple

from berth.rules.network_topology.capacity import usable
from berth.rules.network_topology.distribute import Ground
from berth.rules.network_topology.fewest import Search
from berth.rules.network_topology.procedure import Counts, Wanted, considered, plan
from berth.rules.network_topology.tree import Ints, Levels, Tree


class Gathered(NamedTuple):
    """A plan; `is_proven`: none for as many pods uses fewer domains."""

    counts: Counts
    is_proven: bool = True


class Scattered(NamedTuple):
    """No plan: the domains that the pods had to go into one of, each with the slots that it has."""

    considered: list[str]


def gather(
    tree: Tree, slots: Ints, wanted: Wanted, at_least: int, existing: Ints | None = None
) -> Gathered | Scattered:
    """Where as many pods go as is possible, at most those that are wanted, and no fewer than `at_least`.

    `slots`: how many each node of the tree takes; `existing`: how many of the same kind it has. The procedure's plan
    holds where none uses fewer domains, by layer from the top; else one that uses the fewest.
    """
    kept = usable(tree, slots, wanted.multiples)
    there: Levels = tree.sums(existing if existing is not None else slots * 0)
    ground = Ground(tree, kept, there)
    level = tree.level_of(wanted.must_layer)
    most = int(kept[level].max(initial=0)) if level is not None else 0
    for pods in range(min(wanted.pods, most), max(at_least, 1) - 1, -1):
        found = _of(ground, wanted._replace(pods=pods))
        if found is not None:
            return found
    return Scattered(considered(ground, wanted))


def _of(ground: Ground, wanted: Wanted) -> Gathered | None:
    if any(wanted.pods % each for each in wanted.multiples.values()):
        return None
    search = Search(ground, wanted)
    start = plan(ground, wanted)
    if start is not None and not search.holds(start):
        start = None
    found = search.better_than(start)
    return Gathered(found.counts, found.is_proven) if found.counts is not None else None
