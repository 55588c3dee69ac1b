"""The network above the nodes."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem


class NetworkLayer(Part, frozen=True, kw_only=True):
    """A layer of the network: its name, the layer above it, and the labels of which the first with a value names a
    node's domain."""

    name: str
    parent: str = ""
    label_keys: list[str] = []


class ClusterNetworkTopology(Message, frozen=True, kw_only=True, tag="clusternetworktopology.seen.v1"):
    """A ClusterNetworkTopology: the layers as they are listed. Only the object `default` counts.

    `status` is a digest of what its status says, for its writer to compare.
    """

    name: str
    uid: str
    version: Integer
    layers: list[NetworkLayer] = []
    status: str = ""
    problems: list[Problem] = []
