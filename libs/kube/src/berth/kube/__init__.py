"""List and watch, bind, evict, patch and leases against a Kubernetes API server.

Objects go from raw bytes straight into the caller's structs; outcomes are values. kubernetes_asyncio serves for reading
kubeconfig files and running their auth plugins only.
"""

from berth.kube.answer import Answer
from berth.kube.api import KubeApi, Selection
from berth.kube.backoff import Backoff
from berth.kube.bodies import ObjectRef, Patch, event, timestamp
from berth.kube.client import Kube
from berth.kube.clock import Clock, SystemClock
from berth.kube.credentials import KubeConfigError
from berth.kube.decoding import HasMeta, Malformed
from berth.kube.lease import KubeLease, Outcome
from berth.kube.lease_record import LeaseRecord
from berth.kube.listing import Listing, list_all
from berth.kube.outages import Outages
from berth.kube.port import Transport
from berth.kube.reflector import Handler, Reflector
from berth.kube.resources import (
    CLUSTER_NETWORK_TOPOLOGIES,
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEVICES,
    ELASTIC_QUOTA_PROFILES,
    ELASTIC_QUOTAS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODE_METRICS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_SLOS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESERVATION_SCHEDULES,
    RESERVATIONS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VALIDATING_WEBHOOKS,
    VOLUME_ATTACHMENTS,
    Resource,
    key_of,
)
from berth.kube.settings import KubeSettings
from berth.kube.watch_events import ChangeKind
from berth.kube.watching import Watching, WatchSettings

__all__ = [
    "CLUSTER_NETWORK_TOPOLOGIES",
    "COLOCATION_PROFILES",
    "CONFIG_MAPS",
    "CSI_DRIVERS",
    "CSI_NODES",
    "CSI_STORAGE_CAPACITIES",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DEVICES",
    "ELASTIC_QUOTAS",
    "ELASTIC_QUOTA_PROFILES",
    "EVENTS",
    "LEASES",
    "MUTATING_WEBHOOKS",
    "NAMESPACES",
    "NODES",
    "NODE_METRICS",
    "NODE_RESOURCE_TOPOLOGIES",
    "NODE_SLOS",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "REPLICATION_CONTROLLERS",
    "REPLICA_SETS",
    "RESERVATIONS",
    "RESERVATION_SCHEDULES",
    "SERVICES",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "VALIDATING_WEBHOOKS",
    "VOLUME_ATTACHMENTS",
    "Answer",
    "Backoff",
    "ChangeKind",
    "Clock",
    "Handler",
    "HasMeta",
    "Kube",
    "KubeApi",
    "KubeConfigError",
    "KubeLease",
    "KubeSettings",
    "LeaseRecord",
    "Listing",
    "Malformed",
    "ObjectRef",
    "Outages",
    "Outcome",
    "Patch",
    "Reflector",
    "Resource",
    "Selection",
    "SystemClock",
    "Transport",
    "WatchSettings",
    "Watching",
    "event",
    "key_of",
    "list_all",
    "timestamp",
]
