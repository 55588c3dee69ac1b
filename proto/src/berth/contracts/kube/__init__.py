"""Partial views of Kubernetes objects: the fields that Berth reads, and no others.

Field names are Kubernetes' own (camelCase on the wire). Objects are decoded straight from the API server's bytes;
unknown fields are skipped at no cost. Amounts stay text here; the watcher turns them into integers.
"""

from berth.contracts.kube.devices import Device, DeviceInfo, DeviceSpec, DeviceTopology
from berth.contracts.kube.groups import (
    ElasticQuota,
    ElasticQuotaSpec,
    ElasticQuotaStatus,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
)
from berth.contracts.kube.meta import AnyObject, Condition, Meta, OwnerReference, Quantity, View
from berth.contracts.kube.nodes import Node, NodeMetric, NodeResourceTopology, NodeSLO, NodeSpec, NodeStatus
from berth.contracts.kube.pods import (
    Container,
    ContainerPort,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    SchedulingGate,
)
from berth.contracts.kube.policies import (
    ConfigMap,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
)
from berth.contracts.kube.reservations import (
    ControllerReference,
    ObjectReference,
    PodTemplate,
    PodTemplateMeta,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
)
from berth.contracts.kube.selectors import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
)

__all__ = [
    "Affinity",
    "AnyObject",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerPort",
    "ContainerStatus",
    "ControllerReference",
    "Device",
    "DeviceInfo",
    "DeviceSpec",
    "DeviceTopology",
    "DisruptionBudgetSpec",
    "DisruptionBudgetStatus",
    "ElasticQuota",
    "ElasticQuotaSpec",
    "ElasticQuotaStatus",
    "LabelSelector",
    "Meta",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeMetric",
    "NodeResourceTopology",
    "NodeSLO",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "OwnerReference",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateMeta",
    "PreferredTerm",
    "PriorityClass",
    "Quantity",
    "Requirement",
    "Reservation",
    "ReservationCondition",
    "ReservationOwner",
    "ReservationSpec",
    "ReservationStatus",
    "Resources",
    "SchedulingGate",
    "Taint",
    "Toleration",
    "View",
]
