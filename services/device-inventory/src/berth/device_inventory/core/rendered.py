"""What was made of the objects and reports of each node, kept as long as what it was made of stays what it is.

Nodes change far more often than their devices and reports do.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import NodeInventory
from berth.contracts.node_report import NodeReport
from berth.contracts.state import Device, Node, NodeResourceTopology
from berth.contracts.topology import NodeTopology
from berth.device_inventory.core.count import inventory_of
from berth.device_inventory.core.device_object import DeviceObject, device_object
from berth.device_inventory.core.topology_object import TopologyObject, depends_on, topology_object
from berth.device_inventory.core.zone_lending import Lent
from berth.rules.cpus.kubelet import NodePod
from berth.rules.cpus.node_topology import topology_of

_Layout = TopologyObject | Problem | None


class Rendered:
    """By the name of the node. What there is nothing to be made of any more is forgotten."""

    def __init__(self) -> None:
        self._inventories: dict[str, tuple[Device, str, NodeInventory]] = {}
        self._topologies: dict[str, tuple[NodeResourceTopology, NodeTopology]] = {}
        self._devices: dict[str, tuple[NodeReport, DeviceObject | None]] = {}
        self._layouts: dict[str, tuple[NodeReport, tuple[object, ...], _Layout]] = {}

    def inventory(self, name: str, device: Device | None, node: Node | None) -> NodeInventory | None:
        """The inventory of a Device."""
        if device is None:
            self._inventories.pop(name, None)
            return None
        annotations = node.annotations if node is not None else {}
        cordon = annotations.get(names.ANNOTATION_DEVICE_CORDON, "")
        known = self._inventories.get(name)
        if known is None or known[0] is not device or known[1] != cordon:
            known = self._inventories[name] = (device, cordon, inventory_of(device, annotations))
        return known[2]

    def topology(self, name: str, report: NodeResourceTopology | None) -> NodeTopology | None:
        """The topology of a NodeResourceTopology."""
        if report is None:
            self._topologies.pop(name, None)
            return None
        known = self._topologies.get(name)
        if known is None or known[0] is not report:
            known = self._topologies[name] = (report, topology_of(report))
        return known[1]

    def device_object(self, name: str, report: NodeReport | None) -> DeviceObject | None:
        """What the Device is to say of what the agent reports."""
        if report is None:
            self._devices.pop(name, None)
            return None
        known = self._devices.get(name)
        if known is None or known[0] is not report:
            known = self._devices[name] = (report, device_object(report))
        return known[1]

    def topology_object(
        self, name: str, node: Node, report: NodeReport, pods: Sequence[NodePod], lent: Lent
    ) -> TopologyObject | None:
        """What the NodeResourceTopology is to say; None where nothing is, or where it cannot be made."""
        key = depends_on(report, node, pods, lent)
        known = self._layouts.get(name)
        if known is None or known[0] is not report or known[1] != key:
            known = self._layouts[name] = (report, key, topology_object(report, node, pods, lent))
        return known[2] if isinstance(known[2], TopologyObject) else None

    def forget_topology_object(self, name: str) -> None:
        """There is nothing to make one of."""
        self._layouts.pop(name, None)

    def unusable(self) -> list[str]:
        """Nodes whose reported CPUs cannot be, with the field."""
        return [
            f"{name}: {made.field} {made.message}"
            for name, (_, _, made) in sorted(self._layouts.items())
            if isinstance(made, Problem)
        ]
