"""Partial views of Kubernetes objects: the fields that Berth reads, and no others.

Field names are Kubernetes' own (camelCase on the wire). Objects are decoded straight from the API server's bytes;
unknown fields are skipped at no cost. Amounts stay text here; the watcher turns them into integers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.contracts.base import Integer

Quantity = str | int | float


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of the partial views."""


class OwnerReference(View, frozen=True, kw_only=True):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(View, frozen=True, kw_only=True):
    """metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnyObject(View, frozen=True, kw_only=True):
    """An object of which only the metadata could be read."""

    metadata: Meta
    kind: str = ""
    api_version: str = ""


class Requirement(View, frozen=True, kw_only=True):
    """One expression of a label selector or a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(View, frozen=True, kw_only=True):
    """A label selector; empty selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    """Expressions on labels and on fields (`metadata.name`), all of which hold; an empty term matches nothing."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(View, frozen=True, kw_only=True):
    """Terms of which one has to hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredTerm(View, frozen=True, kw_only=True):
    """A term that adds its weight to the score of the nodes it matches."""

    weight: Integer = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True, kw_only=True):
    """spec.affinity.nodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] | None = None


class Affinity(View, frozen=True, kw_only=True):
    """spec.affinity; pod (anti-)affinity is kept as read, since nothing evaluates it yet."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class Toleration(View, frozen=True, kw_only=True):
    """spec.tolerations[]."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Integer | None = None


class Taint(View, frozen=True, kw_only=True):
    """spec.taints[] of a node or a Reservation."""

    key: str
    effect: str
    value: str = ""


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
    resources: Resources = Resources()
    ports: list[ContainerPort] | None = None
    restart_policy: str = ""


class SchedulingGate(View, frozen=True, kw_only=True):
    """spec.schedulingGates[]."""

    name: str = ""


class PodSpec(View, frozen=True, kw_only=True):
    """spec of a pod, or of a pod template."""

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
    topology_spread_constraints: list[dict[str, Any]] | None = None
    volumes: list[dict[str, Any]] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    host_network: bool = False


class Condition(View, frozen=True, kw_only=True):
    """A condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    """What the kubelet says of a container: the amounts it granted, and those in force."""

    name: str = ""
    allocated_resources: dict[str, Quantity] | None = None
    resources: Resources | None = None


class PodStatus(View, frozen=True, kw_only=True):
    """status of a pod."""

    phase: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(View, frozen=True, kw_only=True):
    """v1 Pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(View, frozen=True, kw_only=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(View, frozen=True, kw_only=True):
    """status of a node."""

    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None


class Node(View, frozen=True, kw_only=True):
    """v1 Node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(View, frozen=True, kw_only=True):
    """v1 Namespace."""

    metadata: Meta


class ConfigMap(View, frozen=True, kw_only=True):
    """v1 ConfigMap."""

    metadata: Meta
    data: dict[str, str] | None = None


class PriorityClass(View, frozen=True, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Meta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class DisruptionBudgetSpec(View, frozen=True, kw_only=True):
    """spec of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class DisruptionBudgetStatus(View, frozen=True, kw_only=True):
    """status of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(View, frozen=True, kw_only=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: Meta
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class PodGroupSpec(View, frozen=True, kw_only=True):
    """spec of a PodGroup."""

    min_member: int = 0
    schedule_timeout_seconds: int | None = None
    min_resources: dict[str, Quantity] | None = None


class PodGroupStatus(View, frozen=True, kw_only=True):
    """status of a PodGroup."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class PodGroup(View, frozen=True, kw_only=True):
    """scheduling.sigs.k8s.io/v1alpha1 PodGroup."""

    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class ElasticQuotaSpec(View, frozen=True, kw_only=True):
    """spec of an ElasticQuota."""

    min: dict[str, Quantity] | None = None
    max: dict[str, Quantity] | None = None


class ElasticQuotaStatus(View, frozen=True, kw_only=True):
    """status of an ElasticQuota."""

    used: dict[str, Quantity] | None = None


class ElasticQuota(View, frozen=True, kw_only=True):
    """scheduling.sigs.k8s.io/v1alpha1 ElasticQuota."""

    metadata: Meta
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


class DeviceTopology(View, frozen=True, kw_only=True):
    """Where a device sits; -1 and the empty text mean unknown."""

    socket_id: int = msgspec.field(default=-1, name="socketID")
    node_id: int = msgspec.field(default=-1, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class DeviceInfo(View, frozen=True, kw_only=True):
    """spec.devices[] of a Device."""

    type: str = ""
    id: str = ""
    minor: int = 0
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    health: bool = False
    labels: dict[str, str] | None = None
    resources: dict[str, Quantity] | None = None
    topology: DeviceTopology | None = None
    vf_groups: list[dict[str, Any]] | None = None
    conditions: list[Condition] | None = None


class DeviceSpec(View, frozen=True, kw_only=True):
    """spec of a Device."""

    devices: list[DeviceInfo] = []


class Device(View, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 Device; its name is the node's."""

    metadata: Meta
    spec: DeviceSpec = DeviceSpec()


class ObjectReference(View, frozen=True, kw_only=True):
    """A reference to an object; empty fields say nothing."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class ControllerReference(View, frozen=True, kw_only=True):
    """owners[].controller of a Reservation; `controller` is compared only when given."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ReservationOwner(View, frozen=True, kw_only=True):
    """spec.owners[] of a Reservation: its parts have to hold together."""

    object: ObjectReference | None = None
    controller: ControllerReference | None = None
    label_selector: LabelSelector | None = None


class PodTemplateMeta(View, frozen=True, kw_only=True):
    """metadata of a pod template."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(View, frozen=True, kw_only=True):
    """spec.template of a Reservation."""

    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodSpec = PodSpec()


class ReservationSpec(View, frozen=True, kw_only=True):
    """spec of a Reservation."""

    template: PodTemplate | None = None
    owners: list[ReservationOwner] | None = None
    ttl: str | None = None
    expires: str | None = None
    allocate_once: bool | None = None
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: list[Taint] | None = None
    pre_allocation: bool = False


class ReservationCondition(Condition, frozen=True, kw_only=True):
    """A condition of a Reservation, which carries a probe time as well."""

    last_probe_time: str | None = None


class ReservationStatus(View, frozen=True, kw_only=True):
    """status of a Reservation."""

    phase: str = ""
    node_name: str = ""
    allocatable: dict[str, Quantity] | None = None
    allocated: dict[str, Quantity] | None = None
    conditions: list[ReservationCondition] | None = None
    current_owners: list[ObjectReference] | None = None


class Reservation(View, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 Reservation."""

    metadata: Meta
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()


class NodeResourceTopology(View, frozen=True, kw_only=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology, kept as read until cores are placed."""

    metadata: Meta
    zones: list[dict[str, Any]] | None = None
    topology_policies: list[str] | None = None


class NodeMetric(View, frozen=True, kw_only=True):
    """slo.koordinator.sh/v1alpha1 NodeMetric, kept as read until overcommit uses it."""

    metadata: Meta
    status: dict[str, Any] | None = None
