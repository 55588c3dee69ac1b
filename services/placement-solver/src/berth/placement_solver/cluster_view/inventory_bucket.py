"""INVENTORY: the devices, CPUs and NUMA nodes of nodes, how new STATE says that they are, and the network."""

from __future__ import annotations

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.network import NetworkLayers, NodeDomains
from berth.contracts.state import (
    Device,
    NodeResourceTopology,
)
from berth.contracts.topology import NodeTopology
from berth.placement_solver.cluster_view.holdings import Holdings
from berth.placement_solver.core.inventories import same_content
from berth.rules.devices.kubelet_cards import picked_grants


class InventoryBucket(Holdings):
    """What is in nodes. It counts once it is as new as the objects of STATE that it was made of."""

    def read_inventory(self, key: str, value: bytes, deleted: bool) -> None:
        """Take in one message of INVENTORY."""
        self.moment += 1
        kind, _, rest = key.partition(".")
        if kind == "node":
            node = subjects.unescape(rest)
            self.inventories.publish(node, None if deleted else decode(value, NodeInventory))
            self._count_devices(node)
        elif kind == "topology":
            node = subjects.unescape(rest)
            self.topologies.publish(node, None if deleted else decode(value, NodeTopology))
            self._count_cores(node)
        elif kind == "network":
            self.capacity_came_back |= self.network.see_layers(None if deleted else decode(value, NetworkLayers))
        elif kind == "domains":
            node, domains = subjects.unescape(rest), None if deleted else decode(value, NodeDomains)
            if domains is not None and domains.node != node:
                raise InvalidMessage("node", "is not the name in the key")
            self.capacity_came_back |= self.network.see_domains(node, domains)

    def reset_inventory(self) -> None:
        """INVENTORY starts over: no devices and no CPUs until they are read again."""
        self.inventories.reset()
        self.topologies.reset()
        self.network.reset()
        for name in self.nodes.names:
            self._count_devices(name)
            self._count_cores(name)

    def _read_device(self, node: str, value: bytes, deleted: bool) -> None:
        """Only how new it is: INVENTORY says what it comes to."""
        device = None if deleted else decode(value, Device)
        if device is not None and device.name != node:
            raise InvalidMessage("name", "is not the name in the key")
        self.inventories.see(node, None if device is None else device.version)
        self._count_devices(node)

    def _count_devices(self, node: str) -> None:
        """A node's devices may be others than before, or count from now on."""
        nodes, found, is_uncounted = self.nodes, self.inventories.of(node), self.inventories.waits(node)
        row = nodes.rows.get(node)
        was_uncounted = row is not None and bool(nodes.uncounted[row])
        if is_uncounted == was_uncounted and same_content(found, nodes.inventory(node)):
            return
        nodes.see_inventory(node, found, is_uncounted=is_uncounted)
        self.book.see_picked(node, picked_grants(found.kubelet_cards, found.devices) if found is not None else {})
        self.capacity_came_back = True

    def _read_report(self, node: str, value: bytes, deleted: bool) -> None:
        """Only how new it is: INVENTORY says what it comes to."""
        report = None if deleted else decode(value, NodeResourceTopology)
        if report is not None and report.name != node:
            raise InvalidMessage("name", "is not the name in the key")
        self.topologies.see(node, None if report is None else report.version)
        self._count_cores(node)

    def _count_cores(self, node: str) -> None:
        """A node's CPUs and NUMA nodes may be others than before, or count from now on."""
        nodes, found, is_uncounted = self.nodes, self.topologies.of(node), self.topologies.waits(node)
        row = nodes.rows.get(node)
        was_uncounted = row is not None and bool(nodes.cores.uncounted[row])
        if is_uncounted == was_uncounted and same_content(found, nodes.topology(node)):
            return
        nodes.see_topology(node, found, is_uncounted=is_uncounted)
        self.capacity_came_back = True
