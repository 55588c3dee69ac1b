"""The columns of each kind. Those with a priority are shown by `-o wide` alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

from berth.simcluster.store.objects import Json, section
from berth.simcluster.store.resource import (
    CLAIMS,
    CONFIGMAPS,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    ResourceType,
)
from berth.simcluster.store.resource import PRIORITY_CLASSES as CLASSES
from berth.simcluster.store.state import State
from berth.simcluster.tables import cells
from berth.simcluster.tables.cells import NONE, UNKNOWN, age, at

Value = Callable[[Json, float], Any]


class Column(NamedTuple):
    """One column: its head, and what stands in it for an object at a unix time."""

    name: str
    value: Value
    kind: str = "string"
    priority: int = 0

    def definition(self) -> Json:
        """The head as the API server describes it."""
        form = "name" if self.name == "Name" else ""
        return {"name": self.name, "type": self.kind, "format": form, "description": "", "priority": self.priority}


def _field(path: str, missing: Any = "") -> Value:
    return lambda data, now: at(data, path, missing)


def _ago(path: str, missing: str = UNKNOWN) -> Value:
    return lambda data, now: age(found, now) if (found := at(data, path)) else missing


_NAME = Column("Name", _field("metadata.name"))
_AGE = Column("Age", _ago("metadata.creationTimestamp"))


def _count(path: str) -> Value:
    return lambda data, now: str(at(data, path, 0))


def _of(path: str, whole: str) -> Value:
    return lambda data, now: f"{at(data, path, 0)}/{at(data, whole, 1)}"


_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    PODS.id: (
        _NAME,
        Column("Ready", lambda data, now: cells.pod_ready(data)),
        Column("Status", lambda data, now: cells.pod_state(data)),
        Column("Restarts", lambda data, now: cells.pod_restarts(data)),
        _AGE,
        Column("IP", _field("status.podIP", NONE), priority=1),
        Column("Node", _field("spec.nodeName", NONE), priority=1),
        Column("Nominated Node", _field("status.nominatedNodeName", NONE), priority=1),
        Column("Readiness Gates", lambda data, now: NONE, priority=1),
    ),
    NODES.id: (
        _NAME,
        Column("Status", lambda data, now: cells.node_state(data)),
        Column("Roles", lambda data, now: cells.node_roles(data)),
        _AGE,
        Column("Version", _field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", lambda data, now: cells.node_address(data, "InternalIP"), priority=1),
        Column("External-IP", lambda data, now: cells.node_address(data, "ExternalIP"), priority=1),
        Column("OS-Image", _field("status.nodeInfo.osImage", UNKNOWN), priority=1),
        Column("Kernel-Version", _field("status.nodeInfo.kernelVersion", UNKNOWN), priority=1),
        Column("Container-Runtime", _field("status.nodeInfo.containerRuntimeVersion", UNKNOWN), priority=1),
    ),
    NAMESPACES.id: (_NAME, Column("Status", _field("status.phase")), _AGE),
    CONFIGMAPS.id: (
        _NAME,
        Column("Data", lambda data, now: str(len(section(data, "data")) + len(section(data, "binaryData")))),
        _AGE,
    ),
    EVENTS.id: (
        Column("Last Seen", lambda data, now: _seen(data, "lastTimestamp", now)),
        Column("Type", _field("type")),
        Column("Reason", _field("reason")),
        Column("Object", lambda data, now: _about(data)),
        Column("Subobject", _field("involvedObject.fieldPath"), priority=1),
        Column("Source", lambda data, now: at(data, "source.component") or at(data, "reportingComponent"), priority=1),
        Column("Message", lambda data, now: str(at(data, "message")).strip()),
        Column("First Seen", lambda data, now: _seen(data, "firstTimestamp", now), priority=1),
        Column("Count", _count("count"), priority=1),
        Column("Name", _field("metadata.name"), priority=1),
    ),
    CLASSES.id: (
        _NAME,
        Column("Value", _field("value", 0), "integer"),
        Column("Global-Default", _field("globalDefault", False), "boolean"),
        _AGE,
        Column("PreemptionPolicy", _field("preemptionPolicy")),
    ),
    PDBS.id: (
        _NAME,
        Column("Min Available", lambda data, now: str(at(data, "spec.minAvailable", "N/A"))),
        Column("Max Unavailable", lambda data, now: str(at(data, "spec.maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", _field("status.disruptionsAllowed", 0), "integer"),
        _AGE,
    ),
    CLAIMS.id: (
        _NAME,
        Column("Status", _field("status.phase")),
        Column("Volume", _field("spec.volumeName")),
        Column("Capacity", _field("status.capacity.storage")),
        Column("Access Modes", lambda data, now: _modes(section(data, "status"))),
        Column("StorageClass", _field("spec.storageClassName")),
        _AGE,
        Column("VolumeMode", _field("spec.volumeMode"), priority=1),
    ),
    VOLUMES.id: (
        _NAME,
        Column("Capacity", _field("spec.capacity.storage")),
        Column("Access Modes", lambda data, now: _modes(section(data, "spec"))),
        Column("Reclaim Policy", _field("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _field("status.phase")),
        Column("Claim", lambda data, now: _claim(section(data, "spec"))),
        Column("StorageClass", _field("spec.storageClassName")),
        _AGE,
        Column("VolumeMode", _field("spec.volumeMode"), priority=1),
    ),
    STORAGE_CLASSES.id: (
        _NAME,
        Column("Provisioner", _field("provisioner")),
        Column("ReclaimPolicy", _field("reclaimPolicy")),
        Column("VolumeBindingMode", _field("volumeBindingMode")),
        _AGE,
    ),
    LEASES.id: (_NAME, Column("Holder", _field("spec.holderIdentity")), _AGE),
    CRDS.id: (_NAME, Column("Created At", _field("metadata.creationTimestamp"), "date")),
    ("apps", "deployments"): (
        _NAME,
        Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", _count("status.updatedReplicas")),
        Column("Available", _count("status.availableReplicas")),
        _AGE,
    ),
    ("apps", "statefulsets"): (_NAME, Column("Ready", _of("status.readyReplicas", "spec.replicas")), _AGE),
    ("apps", "replicasets"): (
        _NAME,
        Column("Desired", _field("spec.replicas", 1), "integer"),
        Column("Current", _field("status.replicas", 0), "integer"),
        Column("Ready", _field("status.readyReplicas", 0), "integer"),
        _AGE,
    ),
    ("batch", "jobs"): (
        _NAME,
        Column("Status", lambda data, now: "Complete" if at(data, "status.completionTime") else "Running"),
        Column("Completions", _of("status.succeeded", "spec.completions")),
        _AGE,
    ),
}


def _seen(event: Json, field: str, now: float) -> str:
    stamp = at(event, field) or at(event, "eventTime") or at(event, "metadata.creationTimestamp")
    return age(stamp, now)


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(part: Json) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in part.get("accessModes") or ())


def _claim(spec: Json) -> str:
    ref = section(spec, "claimRef")
    return f"{ref.get('namespace')}/{ref.get('name')}" if ref else ""


def _about(event: Json) -> str:
    return f"{str(at(event, 'involvedObject.kind')).lower()}/{at(event, 'involvedObject.name')}"


def columns_of(state: State, resource: ResourceType, version: str) -> tuple[Column, ...]:
    """The columns of a resource; a custom one has those of its definition."""
    if not resource.custom:
        return _COLUMNS.get(resource.id, (_NAME, _AGE))
    found = state.of(CRDS).items.get(f"{resource.plural}.{resource.group}")
    for each in section(found.data, "spec").get("versions", ()) if found else ():
        if each.get("name") == version and each.get("additionalPrinterColumns"):
            return (_NAME, *(_printer_column(column) for column in each["additionalPrinterColumns"]))
    return (_NAME, _AGE)


def _printer_column(column: Json) -> Column:
    kind, path = column["type"], column["jsonPath"]
    value = _ago(path, missing="") if kind == "date" else _field(path)
    return Column(column["name"], value, kind, column.get("priority") or 0)
