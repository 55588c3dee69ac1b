"""INVENTORY: the layers of the network and the domains of each node, written by device-inventory alone."""

from __future__ import annotations

from berth.contracts.base import Message, Part, Problem


class LayerLabels(Part, frozen=True, kw_only=True):
    """A layer above the nodes, and the labels of which the first with a value names a node's domain."""

    name: str
    label_keys: list[str] = []


class NetworkLayers(Message, frozen=True, kw_only=True, tag="networklayers.set.v1"):
    """The layers above the nodes, from the top down, as a ClusterNetworkTopology lists them.

    `digest` is equal for equal layers; empty: there are none that can be used. A list that is no chain changes nothing:
    the layers before it stay, and `problems` say what is wrong with it.
    """

    name: str
    layers: list[LayerLabels] = []
    digest: str = ""
    problems: list[Problem] = []


class NodeDomains(Message, frozen=True, kw_only=True, tag="nodedomains.set.v1"):
    """The domains of a node from the top down, without the node itself: its place in the network.

    `digest` is that of the layers that its labels were read by.
    """

    node: str
    digest: str
    path: list[str] = []
