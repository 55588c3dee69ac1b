"""Pods: what they ask for, where they may go, what the kubelet says of them."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.contracts.kube.meta import Condition, Meta, Quantity, View
from berth.contracts.kube.selectors import Affinity, Toleration, TopologySpreadConstraint


class ContainerPort(View, frozen=True, kw_only=True):
    """A port of a container that may bind to one of the host."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Resources(View, frozen=True, kw_only=True):
    """resources of a container or of a pod."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None
    claims: list[dict[str, Any]] | None = None


class Container(View, frozen=True, kw_only=True):
    """What of a container concerns placement. `restartPolicy: Always` makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: list[ContainerPort] | None = None
    restart_policy: str = ""


class SchedulingGate(View, frozen=True, kw_only=True):
    """spec.schedulingGates[]."""

    name: str = ""


class PodSpec(View, frozen=True, kw_only=True):
    """spec of a pod, or of a pod template. `volumes` are kept as read: a source that nobody knows counts too."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, Quantity] | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[dict[str, Any]] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    host_network: bool = False


class ContainerStatus(View, frozen=True, kw_only=True):
    """What the kubelet says of a container: the amounts it granted, and those in force."""

    name: str = ""
    allocated_resources: dict[str, Quantity] | None = None
    resources: Resources | None = None


class PodStatus(View, frozen=True, kw_only=True):
    """status of a pod."""

    phase: str = ""
    qos_class: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(View, frozen=True, kw_only=True):
    """v1 Pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
