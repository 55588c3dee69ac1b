"""What nodes lend: the smaller of what slo-manager offers and what the node shows; the same of their NUMA nodes.

kubelet refuses what the node's status lacks; an offer that has fallen counts before the status follows, and before the
NodeResourceTopology does. A node of which nothing is offered lends what it shows: then another manager sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from berth.contracts.names import LENT, LENT_BY_ZONE
from berth.contracts.slo import NodeOffer
from berth.contracts.state import Node
from berth.contracts.topology import NodeTopology


class Lending:
    """The offers of nodes, and what nodes and their topologies show without them, by name."""

    def __init__(self) -> None:
        self.offers: dict[str, NodeOffer] = {}
        self.topologies: dict[str, NodeTopology] = {}
        self._shown: dict[str, Node] = {}

    def see_node(self, name: str, node: Node | None) -> Node | None:
        """Take in a node as it is shown; the node as it counts."""
        if node is None:
            self._shown.pop(name, None)
            return None
        self._shown[name] = node
        return self._lowered(node)

    def see_offer(self, name: str, offer: NodeOffer | None) -> Node | None:
        """Take in an offer, None: it is gone. The node as it counts now; None where that is not known."""
        if offer is None:
            self.offers.pop(name, None)
        else:
            self.offers[name] = offer
        node = self._shown.get(name)
        return None if node is None else self._lowered(node)

    def see_topology(self, name: str, topology: NodeTopology | None) -> NodeTopology | None:
        """Take in the topology of a node as INVENTORY says; the topology as it counts."""
        if topology is None:
            self.topologies.pop(name, None)
            return None
        self.topologies[name] = topology
        return self.topology(name)

    def topology(self, name: str) -> NodeTopology | None:
        """The topology of a node as it counts; the one of INVENTORY where the offer makes nothing of it less."""
        topology, node, offer = self.topologies.get(name), self._shown.get(name), self.offers.get(name)
        if topology is None or node is None or offer is None or offer.uid != node.uid:
            return topology
        lent = {each.zone: each.amounts for each in offer.zones}
        zones, is_less = [], False
        for zone in topology.zones:
            most = lent.get(zone.zone, {})
            less = {each: most.get(each, 0) for each in LENT_BY_ZONE if zone.amounts.get(each, 0) > most.get(each, 0)}
            zones.append(replace(zone, amounts={**zone.amounts, **less}) if less else zone)
            is_less = is_less or bool(less)
        return replace(topology, zones=zones) if is_less else topology

    def revision(self, node: Node | None, requests: Mapping[str, int]) -> int:
        """The revision of the offer that a pod with these requests counts by; 0: none."""
        offer = None if node is None else self.offers.get(node.name)
        if node is None or offer is None or offer.uid != node.uid:
            return 0
        return offer.revision if any(requests.get(name, 0) > 0 for name in LENT) else 0

    def _lowered(self, node: Node) -> Node:
        offer = self.offers.get(node.name)
        if offer is None or offer.uid != node.uid:
            return node
        lent = {name: offer.offers[name].amount if name in offer.offers else 0 for name in LENT}
        less = {name: most for name, most in lent.items() if node.allocatable.get(name, 0) > most}
        return replace(node, allocatable={**node.allocatable, **less}) if less else node
