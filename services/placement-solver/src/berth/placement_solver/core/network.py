"""Where the nodes lie in the network: the layers and domains that INVENTORY shows, by row, and as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts.network import NetworkLayers, NodeDomains
from berth.placement_solver.core.groups import Gang, Gangs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Mask, RowArray
from berth.rules.network_topology.layers import Layer, Path, names_of
from berth.rules.network_topology.tree import Tree, tree_of
from berth.transaction.claims import Name

Codes = npt.NDArray[np.int64]


class RowTree(NamedTuple):
    """The tree of all nodes that lie in one, and the row of each of its nodes."""

    tree: Tree
    rows: RowArray


class Network:
    """The network over `nodes`. `place_of` says on which node a pod is, decided or bound; empty: on none.

    A node whose domains were read by other layers than those that hold lies nowhere until they are read by these.
    """

    def __init__(self, nodes: Nodes, gangs: Gangs, place_of: Callable[[Name], str]) -> None:
        self.gangs = gangs
        self.layers: tuple[Layer, ...] = ()
        """Those above the nodes, from the top down."""
        self.names: tuple[str, ...] = names_of(())
        """The names of all layers from the top down, that of the nodes last."""
        self.is_known = False
        """There are layers, be it that of the nodes alone."""
        self.version = 0
        """Grows with each change."""
        self._nodes = nodes
        self._place_of = place_of
        self.message: NetworkLayers | None = None
        """The layers as they came in."""
        self.domains: dict[str, NodeDomains] = {}
        """Where nodes lie, as it came in."""
        self._digest = ""
        self._codes: list[Codes] = []
        self._interned: list[dict[Path, int]] = []
        self._in_tree: Mask = np.zeros(0, np.bool_)
        self._kept_for = (-1, -1, -1)
        self._tree: RowTree | None = None

    def reset(self) -> None:
        """INVENTORY starts over."""
        self.domains.clear()
        self.see_layers(None)
        self.version += 1

    def see_layers(self, message: NetworkLayers | None) -> bool:
        """Take in the layers; whether they are others than before."""
        self.message = message
        digest = message.digest if message is not None else ""
        if digest == self._digest:
            return False
        self._digest, self.is_known = digest, bool(digest)
        listed = message.layers if message is not None else []
        self.layers = tuple(Layer(each.name, tuple(each.label_keys)) for each in listed)
        self.names = names_of(self.layers)
        self.version += 1
        return True

    def see_domains(self, node: str, message: NodeDomains | None) -> bool:
        """Take in where a node lies; whether it lies elsewhere than before."""
        if self.domains.get(node) == message:
            return False
        if message is None:
            del self.domains[node]
        else:
            self.domains[node] = message
        self.version += 1
        return True

    def path(self, node: str) -> Path | None:
        """The domains of a node, itself at the end; None: it lies nowhere."""
        found = self.domains.get(node)
        if found is None or not self.is_known or found.digest != self._digest or len(found.path) != len(self.layers):
            return None
        return (*found.path, node)

    def in_tree(self) -> Mask:
        """Which rows lie in the network."""
        self._follow()
        return self._in_tree

    def within(self, home: Path) -> Mask:
        """Which rows lie in a domain, given by its path from the top."""
        self._follow()
        depth = len(home)
        if not depth:
            return self._in_tree
        if depth > len(self._codes):
            mask = np.zeros(len(self._in_tree), np.bool_)
            row = self._nodes.rows.get(home[-1])
            if row is not None and row < len(mask) and self.path(home[-1]) == home:
                mask[row] = True
            return mask
        return np.equal(self._codes[depth - 1], self._interned[depth - 1].get(home, -1))

    def lies_within(self, row: int, home: Path) -> bool:
        """What `within` says of one row."""
        self._follow()
        depth = len(home)
        if not depth:
            return bool(self._in_tree[row])
        if depth > len(self._codes):
            return self._nodes.rows.get(home[-1]) == row and self.path(home[-1]) == home
        return bool(self._codes[depth - 1][row] == self._interned[depth - 1].get(home, -1))

    def row_tree(self) -> RowTree:
        """The tree, as the nodes are now."""
        self._follow()
        if self._tree is None:
            rows = np.flatnonzero(self._in_tree)
            row_of = {self._nodes.names[row]: row for row in rows.tolist()}
            paths = [path for name in row_of if (path := self.path(name)) is not None]
            tree = tree_of(self.names, paths)
            self._tree = RowTree(tree, np.array([row_of[name] for name in tree.nodes.names], np.intp))
        return self._tree

    def homes(self, gang: Gang, depth: int) -> Counter[Path]:
        """In which domains of a layer, so many layers from the top, members of the gang and of those that are gathered
        with it are, with how many. Nodes that lie nowhere are in none."""
        found: Counter[Path] = Counter()
        for each in self.gathered_with(gang):
            for name in each.placed:
                path = self.path(self._place_of(name))
                if path is not None:
                    found[path[:depth]] += 1
        return found

    def gathered_with(self, gang: Gang) -> list[Gang]:
        """The gangs of its group that ask for the same of the network, itself among them."""
        network = gang.config.network if gang.config is not None else None
        members = self.gangs.members_of_group(self.gangs.group_of(gang.id))
        return [each for each in members if each.config is not None and each.config.network == network] or [gang]

    def _follow(self) -> None:
        nodes = self._nodes
        key = (self.version, nodes.renamed, len(nodes))
        if key == self._kept_for:
            return
        self._kept_for, self._tree = key, None
        size = len(nodes)
        self._in_tree = np.zeros(size, np.bool_)
        self._codes = [np.zeros(size, np.int64) for _ in self.layers]
        self._interned = [{} for _ in self.layers]
        for row, name in enumerate(nodes.names):
            path = self.path(name)
            if path is None:
                continue
            self._in_tree[row] = True
            for depth, codes in enumerate(self._codes):
                interned = self._interned[depth]
                codes[row] = interned.setdefault(path[: depth + 1], len(interned) + 1)
