"""STATE: what the cluster looks like now, one message per object, written by cluster-watcher alone.

Objects are flattened and their amounts are integers: cpu in thousandths of a core, everything else in its base unit
(bytes, pieces). `version` is the object's resource version. What could not be read is left out and named in
`problems`, so that a malformed object is refused with a reason instead of vanishing; kinds without `problems` are
carried as far as they are well-formed. In a large object, texts are cut off after 32 KiB. A deleted object leaves a
deletion marker whose payload is the resource version of the deletion, so a key's version never goes down.
"""

from __future__ import annotations

from berth.contracts.state.amounts import Amounts
from berth.contracts.state.cluster import ConfigMap, Namespace, PriorityClass, Synced
from berth.contracts.state.devices import Device, DeviceFunction, DeviceInfo, DeviceTopology
from berth.contracts.state.networks import ClusterNetworkTopology, NetworkLayer
from berth.contracts.state.nodes import Node, NodeMetric, NodeResourceTopology, NodeSLO
from berth.contracts.state.pods import BatchContainer, DeviceContainer, HostPort, Pod, PodTemplate, VolumeUse
from berth.contracts.state.quotas import ElasticQuota, ElasticQuotaProfile
from berth.contracts.state.reservations import Reservation, ReservationSchedule
from berth.contracts.state.volumes import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologyTerm,
    VolumeAttachment,
)
from berth.contracts.state.webhooks import (
    ClusterColocationProfile,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from berth.contracts.state.workloads import (
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

__all__ = [
    "Amounts",
    "BatchContainer",
    "CSIDriver",
    "CSINode",
    "CSINodeDriver",
    "CSIStorageCapacity",
    "ClusterColocationProfile",
    "ClusterNetworkTopology",
    "ConfigMap",
    "Device",
    "DeviceContainer",
    "DeviceFunction",
    "DeviceInfo",
    "DeviceTopology",
    "ElasticQuota",
    "ElasticQuotaProfile",
    "HostPort",
    "MutatingWebhookConfiguration",
    "Namespace",
    "NetworkLayer",
    "Node",
    "NodeMetric",
    "NodeResourceTopology",
    "NodeSLO",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PodTemplate",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "Reservation",
    "ReservationSchedule",
    "Service",
    "StatefulSet",
    "StorageClass",
    "Synced",
    "TopologyTerm",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeUse",
]
