"""Inventories beside the Devices that they were counted from.

STATE and INVENTORY come by different ways, and after a loss of the bus an inventory may be older than the Device that
STATE shows: a card that broke meanwhile looks whole in it. So an inventory counts only from the version of its Device
on.
"""

from __future__ import annotations

import sys
from typing import Final

from berth.contracts.inventory import NodeInventory

GONE: Final = sys.maxsize
"""The version that no inventory of a deleted Device has."""


class Inventories:
    """What INVENTORY says of each node, and how new it must be, by node name."""

    def __init__(self) -> None:
        self._needed: dict[str, int] = {}
        self._published: dict[str, NodeInventory] = {}

    def reset_state(self) -> None:
        """STATE starts over."""
        self._needed.clear()

    def reset(self) -> None:
        """INVENTORY starts over."""
        self._published.clear()

    def see(self, node: str, version: int | None) -> None:
        """STATE shows the node's Device at this resource version, or with None that it was deleted."""
        self._needed[node] = GONE if version is None else version

    def publish(self, node: str, inventory: NodeInventory | None) -> None:
        """INVENTORY says this of the node, or with None nothing more."""
        if inventory is None:
            self._published.pop(node, None)
        else:
            self._published[node] = inventory

    def of(self, node: str) -> NodeInventory | None:
        """The inventory to plan with."""
        published = self._published.get(node)
        return published if published is not None and published.version >= self._needed.get(node, 0) else None

    def is_behind(self, node: str) -> bool:
        """Whether the node has a Device, and its devices wait to be counted."""
        return self.of(node) is None and 0 < self._needed.get(node, 0) < GONE
