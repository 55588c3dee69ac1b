"""Nodes, and what agents on them report: their NUMA zones and their use."""

from __future__ import annotations

from typing import Any

from berth.contracts.kube.meta import Condition, Meta, Quantity, View
from berth.contracts.kube.selectors import Taint


class NodeSpec(View, frozen=True, kw_only=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(View, frozen=True, kw_only=True):
    """status.images[] of a node."""

    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(View, frozen=True, kw_only=True):
    """status of a node."""

    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None
    images: list[ContainerImage] | None = None


class Node(View, frozen=True, kw_only=True):
    """v1 Node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeResourceTopology(View, frozen=True, kw_only=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology, kept as read until cores are placed."""

    metadata: Meta
    zones: list[dict[str, Any]] | None = None
    topology_policies: list[str] | None = None


class NetworkLayer(View, frozen=True, kw_only=True):
    """spec.networkTopologySpec[] of a ClusterNetworkTopology."""

    topology_layer: str = ""
    parent_topology_layer: str = ""
    label_key: list[str] | None = None


class NetworkTopologySpec(View, frozen=True, kw_only=True):
    """spec of a ClusterNetworkTopology."""

    network_topology_spec: list[NetworkLayer] | None = None


class NetworkTopologyStatus(View, frozen=True, kw_only=True):
    """status of a ClusterNetworkTopology, kept as read."""

    detail_status: list[dict[str, Any]] | None = None


class ClusterNetworkTopology(View, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 ClusterNetworkTopology: the layers of the network."""

    metadata: Meta
    spec: NetworkTopologySpec = NetworkTopologySpec()
    status: NetworkTopologyStatus = NetworkTopologyStatus()


class NodeSLO(View, frozen=True, kw_only=True):
    """slo.koordinator.sh/v1alpha1 NodeSLO, of which only the metadata are read."""

    metadata: Meta


class NodeMetric(View, frozen=True, kw_only=True):
    """slo.koordinator.sh/v1alpha1 NodeMetric; another agent writes the status, which is kept as read."""

    metadata: Meta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
