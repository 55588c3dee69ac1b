"""Which resources exist: the built-in table, and what custom resource definitions add to it.

A row says all that the generic verbs need; what is special about pods, nodes and the like is in `strategies`.
"""

from dataclasses import dataclass, field

from berth.simcluster.store.schema import Schema


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One resource. `version` is the one objects are stored in; `served` lists all that can be asked for."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    has_status: bool = False
    custom: bool = False
    unconditional_update: bool = True  # a PUT without resourceVersion overwrites; else it is refused
    create_on_update: bool = False  # a PUT of a missing object creates it
    shows_deleted: bool = False  # a DELETE answers with the object that is gone, not with a Status
    short_names: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    schemas: dict[str, Schema] = field(default_factory=dict)

    @property
    def id(self) -> tuple[str, str]:
        """What the collections are keyed by."""
        return (self.group, self.plural)

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`, of the stored version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def versions(self) -> tuple[str, ...]:
        """Every version served."""
        return self.served or (self.version,)


def _core(plural: str, kind: str, *, namespaced: bool = True, has_status: bool = False, **more: object) -> ResourceType:
    return ResourceType("", "v1", plural, kind, namespaced, has_status, **more)  # type: ignore[arg-type]


def _storage(
    plural: str, kind: str, *, namespaced: bool = False, shows_deleted: bool = True, **more: object
) -> ResourceType:
    return ResourceType("storage.k8s.io", "v1", plural, kind, namespaced, shows_deleted=shows_deleted, **more)  # type: ignore[arg-type]


NODES = _core("nodes", "Node", namespaced=False, has_status=True, short_names=("no",))
PODS = _core("pods", "Pod", has_status=True, shows_deleted=True, short_names=("po",))
NAMESPACES = _core("namespaces", "Namespace", namespaced=False, has_status=True, short_names=("ns",))
CONFIGMAPS = _core("configmaps", "ConfigMap", short_names=("cm",))
EVENTS = _core("events", "Event", create_on_update=True, short_names=("ev",))
PRIORITY_CLASSES = ResourceType(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short_names=("pc",)
)
PDBS = ResourceType(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    True,
    has_status=True,
    unconditional_update=False,
    short_names=("pdb",),
)
LEASES = ResourceType(
    "coordination.k8s.io", "v1", "leases", "Lease", True, unconditional_update=False, create_on_update=True
)
CRDS = ResourceType(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    has_status=True,
    unconditional_update=False,
    short_names=("crd", "crds"),
)

CLAIMS = _core(
    "persistentvolumeclaims", "PersistentVolumeClaim", has_status=True, shows_deleted=True, short_names=("pvc",)
)
VOLUMES = _core(
    "persistentvolumes", "PersistentVolume", namespaced=False, has_status=True, shows_deleted=True, short_names=("pv",)
)
DEPLOYMENTS = ResourceType("apps", "v1", "deployments", "Deployment", True, has_status=True, short_names=("deploy",))
REPLICA_SETS = ResourceType("apps", "v1", "replicasets", "ReplicaSet", True, has_status=True, short_names=("rs",))
STORAGE_CLASSES = _storage("storageclasses", "StorageClass", short_names=("sc",))
CSI_NODES = _storage("csinodes", "CSINode")

WEBHOOKS = tuple(
    ResourceType("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)

BUILT_IN: tuple[ResourceType, ...] = (
    NODES,
    PODS,
    NAMESPACES,
    CONFIGMAPS,
    EVENTS,
    PRIORITY_CLASSES,
    PDBS,
    LEASES,
    CRDS,
    CLAIMS,
    VOLUMES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STORAGE_CLASSES,
    CSI_NODES,
    *WEBHOOKS,
    # Stored and watched, without the controllers behind them.
    _core("services", "Service", has_status=True, short_names=("svc",)),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",)),
    _core("replicationcontrollers", "ReplicationController", has_status=True, short_names=("rc",)),
    ResourceType("apps", "v1", "statefulsets", "StatefulSet", True, has_status=True, short_names=("sts",)),
    ResourceType("apps", "v1", "daemonsets", "DaemonSet", True, has_status=True, short_names=("ds",)),
    ResourceType("batch", "v1", "jobs", "Job", True, has_status=True),
    _storage("csidrivers", "CSIDriver"),
    _storage("csistoragecapacities", "CSIStorageCapacity", namespaced=True, shows_deleted=False),
    _storage("volumeattachments", "VolumeAttachment", has_status=True),
)

# Events have two faces over one store.
EVENTS_V1_GROUP = "events.k8s.io"
