"""Inventories beside the objects that they were counted from: of devices the Device, of CPUs the NodeResourceTopology.

STATE and INVENTORY come by different ways, so an inventory is always a little older or newer than the object that STATE
shows. After a loss of the bus it may be much older, and a card that broke meanwhile looks whole in it. So whenever
INVENTORY begins, or begins anew, the inventory of a node counts once it has been as new as its object, and as any that
was known before.
"""

from __future__ import annotations

import sys
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from berth.contracts.inventory import NodeInventory
from berth.contracts.topology import NodeTopology

NEVER: Final = sys.maxsize
"""A version that no inventory has: that of a deleted object, or of one that is still to come."""

T = TypeVar("T", NodeInventory, NodeTopology)


class Inventories(Generic[T]):
    """What INVENTORY says of each node, and whether it counts, by node name."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._known: dict[str, int] = {}  # the newest version published before INVENTORY began anew
        self._published: dict[str, T] = {}
        self._doubted: set[str] = set()  # published, and not new enough since INVENTORY began

    def reset_state(self) -> None:
        """STATE starts over."""
        self._seen.clear()
        self._known.clear()

    def reset(self) -> None:
        """INVENTORY starts over."""
        for node, inventory in self._published.items():
            self._known[node] = max(inventory.version, self._known.get(node, 0))
        self._published.clear()
        self._doubted.clear()

    def see(self, node: str, version: int | None) -> None:
        """STATE shows the node's object at this resource version, or with None that it was deleted."""
        self._seen[node] = NEVER if version is None else version
        self._settle(node)

    def publish(self, node: str, inventory: T | None) -> None:
        """INVENTORY says this of the node, or with None nothing more."""
        if inventory is None:
            self._published.pop(node, None)
            self._doubted.discard(node)
            return
        if node not in self._published:
            self._doubted.add(node)
        self._published[node] = inventory
        self._settle(node)

    def of(self, node: str) -> T | None:
        """The inventory to plan with."""
        return None if node in self._doubted else self._published.get(node)

    def waits(self, node: str) -> bool:
        """Whether the node has something that waits to be counted."""
        return node in self._doubted or (node not in self._published and self._seen.get(node, NEVER) < NEVER)

    def _settle(self, node: str) -> None:
        if node in self._doubted:
            needed = max(self._seen.get(node, NEVER), self._known.get(node, 0))
            if self._published[node].version >= needed:
                self._doubted.discard(node)


def same_content(one: T | None, other: T | None) -> bool:
    """Whether two inventories differ in nothing but the version of the object behind them."""
    if one is None or other is None:
        return one is other
    return replace(one, version=other.version) == other
