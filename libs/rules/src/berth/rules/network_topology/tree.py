"""All domains of a cluster, layer by layer. A domain is what its full path says: two of one name below two parents are
two domains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from berth.rules.network_topology.layers import ROOT

Ints: TypeAlias = npt.NDArray[np.int64]
Levels: TypeAlias = "list[Ints]"
"""One number for each domain of each level, the whole cluster first."""


class Level:
    """The domains of one layer, in the order of their paths, so that the children of a domain stand together."""

    def __init__(self, layer: str, names: Sequence[str], parents: Sequence[int] | Ints) -> None:
        self.layer = layer
        self.names = names
        self.parents: Ints = np.asarray(parents, np.int64)
        """Of each domain the place of its parent in the level above; -1: it has none."""

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ranks(self) -> Ints:
        """The place of each domain when all of the level are ordered by name, then by path."""
        order = sorted(range(len(self.names)), key=lambda at: (self.names[at], at))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


class Tree:
    """Levels from the whole cluster (0) down to the nodes."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self.levels = tuple(levels)
        self._first: list[Ints] = [
            np.searchsorted(below.parents, np.arange(len(level) + 1))
            for level, below in zip(self.levels, self.levels[1:], strict=False)
        ]

    @property
    def nodes(self) -> Level:
        """The lowest level."""
        return self.levels[-1]

    @property
    def depth(self) -> int:
        """The number of the lowest level."""
        return len(self.levels) - 1

    def level_of(self, layer: str) -> int | None:
        """The number of the level of a layer."""
        return next((at for at, each in enumerate(self.levels) if each.layer == layer), None)

    def children(self, level: int, domain: int) -> Ints:
        """The children of a domain, as places in the level below."""
        first = self._first[level]
        return np.arange(first[domain], first[domain + 1])

    def span(self, level: int, domain: int, below: int) -> slice:
        """What lies within a domain, as places in a lower level (or in its own)."""
        start, end = domain, domain + 1
        for each in range(level, below):
            start, end = int(self._first[each][start]), int(self._first[each][end])
        return slice(start, end)

    def spans(self, level: int, domains: Ints, below: int) -> tuple[Ints, Ints]:
        """Where `span` begins and ends for each of these domains."""
        starts, ends = domains, domains + 1
        for each in range(level, below):
            starts, ends = self._first[each][starts], self._first[each][ends]
        return starts, ends

    def ancestors(self, level: int, domains: Ints) -> Iterable[Ints]:
        """Of these domains of a level their parents, then the parents of those, up to the top."""
        for each in range(level, 0, -1):
            domains = self.levels[each].parents[domains]
            yield domains

    def path(self, level: int, domain: int) -> tuple[str, ...]:
        """The names from the top down to a domain, without that of the whole cluster."""
        names: list[str] = []
        while level > 0:
            names.append(self.levels[level].names[domain])
            domain, level = int(self.levels[level].parents[domain]), level - 1
        return tuple(reversed(names))

    def sums(self, of_nodes: Ints) -> Levels:
        """What nodes have, summed up to the top."""
        result: Levels = [of_nodes]
        for at in range(self.depth, 0, -1):
            sums = np.zeros(len(self.levels[at - 1]), np.int64)
            np.add.at(sums, self.levels[at].parents, result[0])
            result.insert(0, sums)
        return result


def tree_of(layers: Sequence[str], paths: Iterable[tuple[str, ...]]) -> Tree:
    """The tree of nodes by their full paths, each with the node's own name at its end; `layers` are their names from
    the top down, that of the nodes last."""
    levels = [Level(ROOT, [""], [-1])]
    leaves = sorted(paths)
    place: list[int] = [0] * len(leaves)
    for depth, layer in enumerate(layers):
        names: list[str] = []
        parents: list[int] = []
        last: tuple[int, str] | None = None
        for at, path in enumerate(leaves):
            key = (place[at], path[depth])
            if key != last:
                names.append(path[depth])
                parents.append(place[at])
                last = key
            place[at] = len(names) - 1
        levels.append(Level(layer, names, parents))
    return Tree(levels)
