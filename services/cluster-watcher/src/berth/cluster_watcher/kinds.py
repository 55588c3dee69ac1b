"""The kinds of objects that STATE shows: where they come from, what becomes of them, under which keys they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from berth import kube
from berth.cluster_watcher.core.colocation_profiles import colocation_profile_of
from berth.cluster_watcher.core.config_maps import config_map_of
from berth.cluster_watcher.core.csi_drivers import csi_driver_of
from berth.cluster_watcher.core.csi_nodes import csi_node_of
from berth.cluster_watcher.core.csi_storage_capacities import csi_storage_capacity_of
from berth.cluster_watcher.core.devices import device_of
from berth.cluster_watcher.core.disruption_budgets import disruption_budget_of
from berth.cluster_watcher.core.elastic_quota_profiles import elastic_quota_profile_of
from berth.cluster_watcher.core.elastic_quotas import elastic_quota_of
from berth.cluster_watcher.core.namespaces import namespace_of
from berth.cluster_watcher.core.network_topologies import network_topology_of
from berth.cluster_watcher.core.node_metrics import node_metric_of
from berth.cluster_watcher.core.node_slos import node_slo_of
from berth.cluster_watcher.core.nodes import node_of
from berth.cluster_watcher.core.persistent_volume_claims import persistent_volume_claim_of
from berth.cluster_watcher.core.persistent_volumes import persistent_volume_of
from berth.cluster_watcher.core.pod_owners import replica_set_of, replication_controller_of, stateful_set_of
from berth.cluster_watcher.core.priority_classes import priority_class_of
from berth.cluster_watcher.core.reservation_schedules import ReservationScheduleItem, reservation_schedule_of
from berth.cluster_watcher.core.reservations import ReservationItem, reservation_of
from berth.cluster_watcher.core.services import service_of
from berth.cluster_watcher.core.storage_classes import storage_class_of
from berth.cluster_watcher.core.topologies import topology_of
from berth.cluster_watcher.core.volume_attachments import volume_attachment_of
from berth.cluster_watcher.core.webhook_configurations import mutating_webhooks_of, validating_webhooks_of
from berth.contracts import kube as views
from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.contracts.subjects import named_key, namespaced_key
from berth.kube import Resource, Selection
from berth.rules.pod_reading import PodItem
from berth.rules.reading.findings import bounded_name
from berth.rules.reading.pod_groups import pod_group_of
from berth.rules.reading.pods import pod_of


class Kind(NamedTuple):
    """A kind of objects.

    `prefix` is the first token of its keys. `convert` takes a decoded object and its version. `required`: readiness
    waits for it. `holds_capacity`: an object that cannot be read must not replace what is known of it, because others
    count what it holds. `is_quiet`: most changes of its objects are of what STATE does not show, and are not written.
    """

    prefix: str
    resource: Resource
    item: type[Any]
    message: type[msgspec.Struct]
    convert: Callable[[Any, int], msgspec.Struct]
    required: bool = False
    holds_capacity: bool = False
    is_quiet: bool = False

    @property
    def plural(self) -> str:
        """Its name in markers, metrics and answers."""
        return self.resource.plural

    def key(self, namespace: str, name: str) -> str:
        """The key in STATE of an object."""
        name = bounded_name(name, "", [])
        if self.resource.namespaced:
            return namespaced_key(self.prefix, bounded_name(namespace, "", []), name)
        return named_key(self.prefix, name)

    def key_of_listed(self, listed: str) -> str:
        """The key in STATE of `namespace/name`, or of a bare name."""
        namespace, _, name = listed.rpartition("/")
        return self.key(namespace, name)

    def unreadable(self, listed: str, uid: str, version: int, problem: Problem) -> msgspec.Struct | None:
        """The message for an object of which only the identity could be read; None for kinds without problems."""
        fields = self.message.__struct_fields__
        if "problems" not in fields:
            return None
        namespace, _, name = listed.rpartition("/")
        identity = {"name": bounded_name(name, "", []), "uid": uid, "version": version, "problems": [problem]}
        if "namespace" in fields and self.resource.namespaced:
            identity["namespace"] = bounded_name(namespace, "", [])
        return self.message(**identity)


PODS: Final = Kind("pod", kube.PODS, PodItem, state.Pod, pod_of, required=True, holds_capacity=True)
RESERVATIONS: Final = Kind(
    "reservation", kube.RESERVATIONS, ReservationItem, state.Reservation, reservation_of, holds_capacity=True
)
CONFIG_MAPS: Final = Kind("configmap", kube.CONFIG_MAPS, views.ConfigMap, state.ConfigMap, config_map_of)
WEBHOOKS: Final = (
    Kind(
        "mutatingwebhookconfiguration",
        kube.MUTATING_WEBHOOKS,
        views.WebhookConfiguration,
        state.MutatingWebhookConfiguration,
        mutating_webhooks_of,
    ),
    Kind(
        "validatingwebhookconfiguration",
        kube.VALIDATING_WEBHOOKS,
        views.WebhookConfiguration,
        state.ValidatingWebhookConfiguration,
        validating_webhooks_of,
    ),
)
"""Of these only the ones that Berth itself keeps."""

KINDS: Final[tuple[Kind, ...]] = (
    Kind("node", kube.NODES, views.Node, state.Node, node_of, required=True),
    PODS,
    Kind("namespace", kube.NAMESPACES, views.Namespace, state.Namespace, namespace_of),
    Kind("priorityclass", kube.PRIORITY_CLASSES, views.PriorityClass, state.PriorityClass, priority_class_of),
    Kind(
        "poddisruptionbudget",
        kube.POD_DISRUPTION_BUDGETS,
        views.PodDisruptionBudget,
        state.PodDisruptionBudget,
        disruption_budget_of,
    ),
    Kind("service", kube.SERVICES, views.Service, state.Service, service_of, is_quiet=True),
    Kind(
        "replicationcontroller",
        kube.REPLICATION_CONTROLLERS,
        views.ReplicationController,
        state.ReplicationController,
        replication_controller_of,
        is_quiet=True,
    ),
    Kind("replicaset", kube.REPLICA_SETS, views.ReplicaSet, state.ReplicaSet, replica_set_of, is_quiet=True),
    Kind("statefulset", kube.STATEFUL_SETS, views.StatefulSet, state.StatefulSet, stateful_set_of, is_quiet=True),
    Kind("podgroup", kube.POD_GROUPS, views.PodGroup, state.PodGroup, pod_group_of),
    Kind("elasticquota", kube.ELASTIC_QUOTAS, views.ElasticQuota, state.ElasticQuota, elastic_quota_of),
    Kind(
        "elasticquotaprofile",
        kube.ELASTIC_QUOTA_PROFILES,
        views.ElasticQuotaProfile,
        state.ElasticQuotaProfile,
        elastic_quota_profile_of,
    ),
    Kind(
        "clustercolocationprofile",
        kube.COLOCATION_PROFILES,
        views.ClusterColocationProfile,
        state.ClusterColocationProfile,
        colocation_profile_of,
    ),
    Kind("device", kube.DEVICES, views.Device, state.Device, device_of),
    RESERVATIONS,
    Kind(
        "reservationschedule",
        kube.RESERVATION_SCHEDULES,
        ReservationScheduleItem,
        state.ReservationSchedule,
        reservation_schedule_of,
    ),
    Kind(
        "noderesourcetopology",
        kube.NODE_RESOURCE_TOPOLOGIES,
        views.NodeResourceTopology,
        state.NodeResourceTopology,
        topology_of,
    ),
    Kind(
        "clusternetworktopology",
        kube.CLUSTER_NETWORK_TOPOLOGIES,
        views.ClusterNetworkTopology,
        state.ClusterNetworkTopology,
        network_topology_of,
    ),
    Kind("nodemetric", kube.NODE_METRICS, views.NodeMetric, state.NodeMetric, node_metric_of),
    Kind("nodeslo", kube.NODE_SLOS, views.NodeSLO, state.NodeSLO, node_slo_of),
    Kind(
        "persistentvolumeclaim",
        kube.PERSISTENT_VOLUME_CLAIMS,
        views.PersistentVolumeClaim,
        state.PersistentVolumeClaim,
        persistent_volume_claim_of,
    ),
    Kind(
        "persistentvolume",
        kube.PERSISTENT_VOLUMES,
        views.PersistentVolume,
        state.PersistentVolume,
        persistent_volume_of,
    ),
    Kind("storageclass", kube.STORAGE_CLASSES, views.StorageClass, state.StorageClass, storage_class_of),
    Kind("csinode", kube.CSI_NODES, views.CSINode, state.CSINode, csi_node_of),
    Kind("csidriver", kube.CSI_DRIVERS, views.CSIDriver, state.CSIDriver, csi_driver_of),
    Kind(
        "csistoragecapacity",
        kube.CSI_STORAGE_CAPACITIES,
        views.CSIStorageCapacity,
        state.CSIStorageCapacity,
        csi_storage_capacity_of,
    ),
    Kind(
        "volumeattachment",
        kube.VOLUME_ATTACHMENTS,
        views.VolumeAttachment,
        state.VolumeAttachment,
        volume_attachment_of,
    ),
)
"""Every kind that is followed whole, the ones that others wait for first."""


class Scope(NamedTuple):
    """What one list and watch covers: a whole kind, or one object of it.

    `marker` is the kind in `synced.<marker>`; that of one object is its key, which proves nothing about the rest.
    """

    name: str
    kind: Kind
    selection: Selection
    marker: str
    only_key: str = ""

    def covers(self, key: str) -> bool:
        """Whether a key of the kind is this scope's."""
        return not self.only_key or key == self.only_key


def scopes(config_maps: Iterable[str]) -> list[Scope]:
    """What to follow: all kinds, Berth's own webhook configurations, and these ConfigMaps (`namespace/name`)."""
    whole = [Scope(kind.plural, kind, Selection(kind.resource), kind.plural) for kind in KINDS]
    single = [_single(kind, "", names.WEBHOOKS) for kind in WEBHOOKS]
    listed = [each.partition("/") for each in dict.fromkeys(config_maps)]
    return whole + single + [_single(CONFIG_MAPS, namespace, name) for namespace, _, name in listed]


def _single(kind: Kind, namespace: str, name: str) -> Scope:
    selection = Selection(kind.resource, namespace, "", f"metadata.name={name}")
    key = kind.key(namespace, name)
    return Scope(f"{kind.prefix} {kube.key_of(namespace, name)}", kind, selection, key, key)
