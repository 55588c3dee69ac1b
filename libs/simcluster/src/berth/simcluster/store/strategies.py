"""What is special about single kinds when they are created or updated: defaults, admission, fields that may not change.

A strategy gets the new object as a dict that is fresh at its top level only, so it replaces nested parts and never
changes them in place.
"""

from typing import Any

from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.resource import ResourceType
from berth.simcluster.store.state import State
from berth.simcluster.store.status import Cause, bad_value, invalid, required
from berth.simcluster.store.validate import quantity_causes


class Strategy:
    """The behaviour of a kind without particulars."""

    drops_status_at_create = True  # where there is a /status subresource
    label_name = False  # the name must be a single DNS label
    metadata_with_status = True  # a write to /status may also change labels and annotations

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Fill in defaults, admit, or raise."""

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Check what may not change, or raise."""


class CustomStrategy(Strategy):
    """Custom resources: the schema decides."""

    metadata_with_status = False

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Prune, default, validate."""
        self._admit(resource, data)

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Prune, default, validate; count a generation when anything but metadata and status changed."""
        self._admit(resource, new)
        if subresource:
            return
        ignored = ("metadata", "status") if resource.has_status else ("metadata",)
        if {k: v for k, v in new.items() if k not in ignored} != {
            k: v for k, v in old.data.items() if k not in ignored
        }:
            new["metadata"]["generation"] = int(old.meta.get("generation", 1)) + 1

    def _admit(self, resource: ResourceType, data: Json) -> None:
        schema = resource.schemas.get(resource.version)
        if schema is None:
            return
        causes: list[Cause] = []
        admitted = schema.admit(data, "", causes)
        if causes:
            raise invalid(resource.group, resource.kind, data["metadata"].get("name", ""), causes)
        data.clear()
        data.update(admitted)


class NodeStrategy(Strategy):
    """Nodes keep the status they are created with (the API server does so too)."""

    drops_status_at_create = False

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """`spec` and `status` are there, amounts are quantities; what is not said to be allocatable is all there is."""
        data.setdefault("spec", {})
        data.setdefault("status", {})
        status = section(data, "status")
        if status.get("capacity") and status.get("allocatable") is None:
            data["status"] = {**status, "allocatable": dict(status["capacity"])}
        self.update(state, resource, None, data, "")

    def update(self, state: State, resource: ResourceType, old: Obj | None, new: Json, subresource: str) -> None:
        """Amounts are quantities; taints have a key and an effect."""
        causes: list[Cause] = []
        for field in ("capacity", "allocatable"):
            causes += quantity_causes(section(new, "status").get(field), f"status.{field}")
        for index, taint in enumerate(section(new, "spec").get("taints") or ()):
            if not taint.get("key"):
                causes.append(required(f"spec.taints[{index}].key"))
            elif taint.get("effect") not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
                causes.append(bad_value(f"spec.taints[{index}].effect", taint.get("effect"), "unknown effect"))
        if causes:
            raise invalid("", "Node", new["metadata"].get("name", ""), causes)


class NamespaceStrategy(Strategy):
    """Namespaces are born active."""

    label_name = True

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Phase and the label that carries the name."""
        meta = data["metadata"]
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
        data["spec"] = {"finalizers": ["kubernetes"]}
        data["status"] = {"phase": "Active"}


class PriorityClassStrategy(Strategy):
    """PriorityClasses: a value that never changes."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """The value is an integer; users stay below the system classes."""
        name, value = data["metadata"]["name"], data.setdefault("value", 0)
        if value is None or not -(1 << 31) <= value < 1 << 31:
            raise invalid(resource.group, resource.kind, name, [bad_value("value", value, "must be a 32-bit integer")])
        if value > 1_000_000_000 and not name.startswith("system-"):
            why = "maximum allowed value of a user defined priority is 1000000000"
            raise invalid(
                resource.group, resource.kind, name, [Cause("FieldValueForbidden", f"Forbidden: {why}", "value")]
            )
        data.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Value and preemption policy are immutable."""
        causes = [
            Cause("FieldValueForbidden", "Forbidden: may not be changed in an update.", field)
            for field in ("value", "preemptionPolicy")
            if new.get(field) != old.data.get(field)
        ]
        if causes:
            raise invalid(resource.group, resource.kind, new["metadata"]["name"], causes)


_WEBHOOK_DEFAULTS: Json = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "timeoutSeconds": 10,
    "namespaceSelector": {},
    "objectSelector": {},
}


class WebhookStrategy(Strategy):
    """Webhook configurations: what an entry leaves out is filled in, as others compare with it."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Defaults, and a generation that grows with the entries."""
        data["metadata"]["generation"] = 1
        _fill_in(resource, data)

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """The same."""
        _fill_in(resource, new)
        is_another = new.get("webhooks") != old.data.get("webhooks")
        new["metadata"]["generation"] = old.meta.get("generation", 1) + is_another


def _fill_in(resource: ResourceType, data: Json) -> None:
    """What the API server writes into entries. Raises 422 for one without a name or a place."""
    entries = data.get("webhooks") or []
    missing = [
        required(f"webhooks[{number}].{field}")
        for number, entry in enumerate(entries)
        for field in ("name", "clientConfig", "sideEffects", "admissionReviewVersions")
        if not entry.get(field)
    ]
    if missing:
        raise invalid(resource.group, resource.kind, data["metadata"]["name"], missing)
    defaults = _WEBHOOK_DEFAULTS | ({"reinvocationPolicy": "Never"} if resource.kind.startswith("Mutating") else {})
    if entries:
        data["webhooks"] = [{**defaults, **entry} for entry in entries]


class PdbStrategy(Strategy):
    """PodDisruptionBudgets: exactly one of the two bounds."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Check the bounds."""
        self._check(resource, data)

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Check the bounds, count generations."""
        self._check(resource, new)
        if new.get("spec") != old.data.get("spec"):
            new["metadata"]["generation"] = int(old.meta.get("generation", 1)) + 1

    def _check(self, resource: ResourceType, data: Json) -> None:
        spec = section(data, "spec")
        causes = [
            bad_value(f"spec.{field}", spec[field], "must be a non-negative integer or a percentage up to 100%")
            for field in ("minAvailable", "maxUnavailable")
            if spec.get(field) is not None and not _is_amount(spec[field])
        ]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            causes.append(bad_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        if causes:
            raise invalid(resource.group, resource.kind, data["metadata"]["name"], causes)


class EventStrategy(Strategy):
    """Events live in the namespace of what they are about; those of cluster-scoped objects in the default one."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Check the namespace."""
        meta, about = data["metadata"], section(data, "involvedObject").get("namespace") or ""
        if about != meta["namespace"] and (about or meta["namespace"] != "default"):
            cause = bad_value("involvedObject.namespace", about, "does not match event.namespace")
            raise invalid("", "Event", meta["name"], [cause])


class LeaseStrategy(Strategy):
    """Leases: numbers that make sense."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Check the numbers."""
        self._check(resource, data)

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Check the numbers."""
        self._check(resource, new)

    def _check(self, resource: ResourceType, data: Json) -> None:
        spec, causes = section(data, "spec"), []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            causes.append(bad_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            causes.append(bad_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        if causes:
            raise invalid(resource.group, resource.kind, data["metadata"]["name"], causes)


def _is_amount(value: Any) -> bool:
    if isinstance(value, str):
        return value.endswith("%") and value[:-1].isdigit() and int(value[:-1]) <= 100
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
