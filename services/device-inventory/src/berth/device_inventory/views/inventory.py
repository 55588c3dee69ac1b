"""INVENTORY as published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from berth.bus.port import Entry
from berth.contracts.base import Message
from berth.contracts.inventory import NodeInventory
from berth.contracts.network import NetworkLayers, NodeDomains
from berth.contracts.topology import NodeTopology
from berth.device_inventory.views.network import NETWORK
from berth.device_inventory.views.state import NODE
from berth.runtime import PublishedView

TOPOLOGY: Final = "topology"
LAYERS: Final = "network"
DOMAINS: Final = "domains"


class InventoryView(PublishedView[NodeInventory]):
    """INVENTORY as published, with counts of what is in it: the devices of nodes, and beside them their topologies,
    the layers of the network, and where in it they lie."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeInventory, mark)
        self.topologies: PublishedView[NodeTopology] = PublishedView(TOPOLOGY, NodeTopology, mark)
        self.layers: PublishedView[NetworkLayers] = PublishedView(LAYERS, NetworkLayers, lambda name: mark(NETWORK))
        self.domains: PublishedView[NodeDomains] = PublishedView(DOMAINS, NodeDomains, mark)
        self._beside: dict[str, PublishedView[Any]] = {
            TOPOLOGY: self.topologies,
            LAYERS: self.layers,
            DOMAINS: self.domains,
        }
        self.devices: Counter[tuple[str, bool]] = Counter()
        """How many devices there are by kind and health."""
        self.faulty = 0
        """How many nodes have problems in their Device."""

    def put(self, name: str, message: NodeInventory | None) -> None:
        """See `PublishedView`."""
        for inventory, sign in ((self.messages.get(name), -1), (message, 1)):
            if inventory is not None:
                for slot in inventory.devices:
                    self.devices[slot.kind, slot.healthy] += sign
                self.faulty += sign * bool(inventory.problems)
        super().put(name, message)

    @property
    def faulty_topologies(self) -> int:
        """How many nodes have problems in their NodeResourceTopology."""
        return sum(1 for each in self.topologies.messages.values() if each.problems)

    def apply(self, entry: Entry) -> None:
        """See `PublishedView`."""
        beside = self._view_beside(entry.key)
        if beside is not None:
            beside.apply(entry)
        else:
            super().apply(entry)

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        beside = self._view_beside(key)
        if beside is not None:
            beside.wrote(key, message)
        else:
            super().wrote(key, message)

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        beside = self._view_beside(key)
        if beside is None:
            return super().name_of(key)
        return NETWORK if beside is self.layers else beside.name_of(key)

    def get(self, key: str) -> Any:
        """See `OwnView`."""
        beside = self._view_beside(key)
        return super().get(key) if beside is None else beside.get(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        for each in self._beside.values():
            each.reset()
        self.devices = Counter(dict.fromkeys(self.devices, 0))  # shown as 0, not as what they were
        self.faulty = 0

    def _view_beside(self, key: str) -> PublishedView[Any] | None:
        return self._beside.get(key.partition(".")[0])
