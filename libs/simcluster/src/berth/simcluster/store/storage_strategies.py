"""What is special about claims, volumes and storage classes: defaults, what they must say, what may not change."""

from berth.resources.quantity import parse_units
from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.resource import STORAGE_CLASSES, ResourceType
from berth.simcluster.store.state import State
from berth.simcluster.store.status import Cause, bad_value, invalid, required, unsupported
from berth.simcluster.store.strategies import Strategy
from berth.simcluster.store.validate import quantity_causes

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BINDING_MODES = ["Immediate", "WaitForFirstConsumer"]
_ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
_VOLUME_MODES = ["Block", "Filesystem"]
_NO_SOURCES = (
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Ways of access and a size are there; the default class is filled in."""
        spec = {"volumeMode": "Filesystem", **section(data, "spec")}
        requests = section(section(spec, "resources"), "requests")
        causes = _mode_causes(spec)
        if "storage" not in requests:
            causes.append(required("spec.resources[storage]"))
        elif quantity_causes(requests, "") or not parse_units(requests["storage"]):
            causes.append(bad_value("spec.resources[storage]", requests["storage"], "must be greater than zero"))
        if causes:
            raise invalid("", resource.kind, data["metadata"]["name"], causes)
        if spec.get("storageClassName") is None:
            default = _default_class(state)
            if default:
                spec["storageClassName"] = default
        data["spec"] = spec
        data["status"] = {"phase": "Pending"}

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """A claim may be bound once and may grow; nothing else of its specification changes."""
        before, after = section(old.data, "spec"), section(new, "spec")
        mutable = ("resources", *(() if before.get("volumeName") else ("volumeName",)))
        if _without(before, mutable) != _without(after, mutable):
            why = "Forbidden: spec is immutable after creation except resources.requests and volumeName"
            raise invalid("", resource.kind, new["metadata"]["name"], [Cause("FieldValueForbidden", why, "spec")])


class VolumeStrategy(Strategy):
    """PersistentVolumes."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Capacity and ways of access are there."""
        spec = {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain", **section(data, "spec")}
        causes = quantity_causes(spec.get("capacity"), "spec.capacity") + _mode_causes(spec)
        capacity = section(spec, "capacity")
        if not capacity:
            causes.append(required("spec.capacity"))
        if list(capacity) != ["storage"]:
            causes.append(unsupported("spec.capacity", sorted(capacity), ["storage"]))
        if not _without(spec, _NO_SOURCES):
            causes.append(required("spec"))
        if causes:
            raise invalid("", resource.kind, data["metadata"]["name"], causes)
        data["spec"] = spec
        data["status"] = {"phase": "Pending"}

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """What the volume is never changes."""
        if _without(section(old.data, "spec"), _NO_SOURCES) != _without(section(new, "spec"), _NO_SOURCES):
            why = "Forbidden: spec.persistentvolumesource is immutable after creation"
            cause = Cause("FieldValueForbidden", why, "spec.persistentvolumesource")
            raise invalid("", resource.kind, new["metadata"]["name"], [cause])


class StorageClassStrategy(Strategy):
    """StorageClasses."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """A provisioner is there; volumes are made at once and deleted with their claim, unless it says otherwise."""
        data.setdefault("reclaimPolicy", "Delete")
        data.setdefault("volumeBindingMode", "Immediate")
        causes: list[Cause] = [] if data.get("provisioner") else [required("provisioner")]
        if data["volumeBindingMode"] not in _BINDING_MODES:
            causes.append(unsupported("volumeBindingMode", data["volumeBindingMode"], _BINDING_MODES))
        if causes:
            raise invalid(resource.group, resource.kind, data["metadata"]["name"], causes)

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """What decides about volumes is immutable."""
        causes = [
            Cause("FieldValueForbidden", "Forbidden: updates to this field are forbidden.", field)
            for field in ("provisioner", "reclaimPolicy", "parameters")
            if new.get(field) != old.data.get(field)
        ]
        mode = new.get("volumeBindingMode")
        if mode != old.data.get("volumeBindingMode"):
            causes.append(bad_value("volumeBindingMode", mode, "field is immutable"))
        if causes:
            raise invalid(resource.group, resource.kind, new["metadata"]["name"], causes)


def _mode_causes(spec: Json) -> list[Cause]:
    causes: list[Cause] = [] if spec.get("accessModes") else [required("spec.accessModes")]
    causes += [
        unsupported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in spec.get("accessModes") or ()
        if mode not in _ACCESS_MODES
    ]
    if spec["volumeMode"] not in _VOLUME_MODES:
        causes.append(unsupported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES))
    return causes


def _default_class(state: State) -> str:
    """The youngest of those that say that they are the default."""
    marked = [
        each
        for each in state.of(STORAGE_CLASSES).items.values()
        if section(each.meta, "annotations").get(_DEFAULT_CLASS) == "true"
    ]
    return max(marked, key=lambda each: each.version).meta["name"] if marked else ""


def _without(spec: Json, fields: tuple[str, ...]) -> Json:
    return {field: value for field, value in spec.items() if field not in fields}
