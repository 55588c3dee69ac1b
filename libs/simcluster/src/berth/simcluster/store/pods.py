"""Pods: what the API server fills in, admits and refuses when one is created or changed."""

from typing import Any

from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.pod_fields import (
    double_host_ports,
    policy_causes,
    port_causes,
    toleration_causes,
    with_ports,
)
from berth.simcluster.store.resource import PODS, PRIORITY_CLASSES, ResourceType
from berth.simcluster.store.state import State
from berth.simcluster.store.status import Cause, bad_value, forbidden, invalid, required
from berth.simcluster.store.strategies import Strategy
from berth.simcluster.store.validate import is_subdomain, quantity_causes

CONTAINERS_LIMIT = 256
# What an update of a pod's spec may touch; containers' images besides.
_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_WHILE_GATED = ("nodeSelector", "affinity")
_IMMUTABLE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """Creation and update of pods."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Defaults, priority admission, a fresh status."""
        name = data["metadata"]["name"]
        spec = data.get("spec")
        spec = dict(spec or {})
        causes: list[Cause] = []
        host = bool(spec.get("hostNetwork"))
        spec["containers"] = _containers(spec.get("containers"), "spec.containers", causes, needed=True, host=host)
        causes += double_host_ports(spec["containers"], "spec.containers")
        if spec.get("initContainers"):
            spec["initContainers"] = _containers(
                spec["initContainers"], "spec.initContainers", causes, needed=False, host=host
            )
        causes += quantity_causes(spec.get("overhead"), "spec.overhead")
        causes += _spec_causes(spec)
        if causes:
            raise invalid("", "Pod", name, causes)
        if not spec.get("schedulerName"):
            spec["schedulerName"] = "default-scheduler"
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("dnsPolicy", "ClusterFirst")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        _admit_priority(state, name, spec)
        data["spec"] = spec
        data["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            data["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": state.stamp(),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Nearly all of a pod's spec is immutable; a pod loses gates and never gets new ones."""
        if subresource == "status":
            return
        before, after = old.data["spec"], new.get("spec")
        if before == after:
            return
        causes: list[Cause] = []
        if after is None or _fixed(before, gated=_gated(before)) != _fixed(after, gated=_gated(before)):
            causes.append(Cause("FieldValueForbidden", _IMMUTABLE, "spec"))
        else:
            causes += _list_causes(before, after)
        if causes:
            raise invalid("", "Pod", new["metadata"]["name"], causes)


def qos_class(spec: Json) -> str:
    """Kubernetes' QoS class: Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    guaranteed, any_amount = True, False
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        resources = section(container, "resources")
        requests, limits = section(resources, "requests"), section(resources, "limits")
        for name in ("cpu", "memory"):
            request, limit = requests.get(name), limits.get(name)
            any_amount = any_amount or not _zero(request) or not _zero(limit)
            guaranteed = guaranteed and not _zero(limit) and request == limit
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _zero(amount: Any) -> bool:
    return amount in (None, "", "0", 0)


def _gated(spec: Json) -> bool:
    return bool(spec.get("schedulingGates"))


def _fixed(spec: Json, *, gated: bool) -> Json:
    """The part of a spec that an update must leave as it is."""
    fixed = {key: value for key, value in spec.items() if key not in _MUTABLE and not (gated and key in _WHILE_GATED)}
    for field in ("containers", "initContainers"):
        if fixed.get(field):
            fixed[field] = [{k: v for k, v in each.items() if k != "image"} for each in fixed[field]]
    return fixed


def _list_causes(before: Json, after: Json) -> list[Cause]:
    causes: list[Cause] = []
    kept = after.get("tolerations") or []
    if any(toleration not in kept for toleration in before.get("tolerations") or ()):
        why = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        causes.append(Cause("FieldValueForbidden", why, "spec.tolerations"))
    gates = before.get("schedulingGates") or []
    if any(gate not in gates for gate in after.get("schedulingGates") or ()):
        why = "Forbidden: only deletion is allowed, but found new scheduling gate"
        causes.append(Cause("FieldValueForbidden", why, "spec.schedulingGates"))
    return causes


def _containers(value: Any, path: str, causes: list[Cause], *, needed: bool, host: bool) -> list[Json]:
    if not value:
        if needed:
            causes.append(required(path))
        return []
    if len(value) > CONTAINERS_LIMIT:
        causes.append(Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {CONTAINERS_LIMIT}", path))
        return []
    names: set[str] = set()
    result = []
    for index, container in enumerate(value):
        where = f"{path}[{index}]"
        name = container.get("name")
        if not name:
            causes.append(required(f"{where}.name"))
        elif not is_subdomain(name):
            causes.append(bad_value(f"{where}.name", name, "must be a lowercase RFC 1123 label"))
        elif name in names:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{where}.name"))
        else:
            names.add(name)
        if not container.get("image"):
            causes.append(required(f"{where}.image"))
        filled = with_ports(container, host_network=host)
        causes += port_causes(filled, where, host_network=host)
        result.append(_with_requests(filled, where, causes))
    return result


def _with_requests(container: Json, where: str, causes: list[Cause]) -> Json:
    """A limit without a request is the request. Extended resources can't be overcommitted: request equals limit."""
    resources = container.get("resources")
    if not resources:
        return container
    requests, limits = resources.get("requests"), resources.get("limits")
    found = quantity_causes(requests, f"{where}.resources.requests") + quantity_causes(
        limits, f"{where}.resources.limits"
    )
    if found:
        causes += found
        return container
    limits = limits or {}
    requests = requests or {}
    for name in requests:
        if _extended(name) and name not in limits:
            why = "Limit must be set for non overcommitable resources"
            causes.append(Cause("FieldValueRequired", f"Required value: {why}", f"{where}.resources.limits"))
    for name, limit in limits.items():
        if _extended(name) and str(requests.get(name, limit)) != str(limit):
            why = f"must be equal to {name} limit of {limit}"
            causes.append(bad_value(f"{where}.resources.requests", requests[name], why))
    if all(name in requests for name in limits):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _spec_causes(spec: Json) -> list[Cause]:
    causes: list[Cause] = []
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        causes.append(bad_value("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        why = "Forbidden: cannot be set until all schedulingGates have been cleared"
        causes.append(Cause("FieldValueForbidden", why, "spec.nodeName"))
    return causes + toleration_causes(spec.get("tolerations")) + policy_causes(spec)


def _admit_priority(state: State, name: str, spec: Json) -> None:
    """`spec.priority` and `spec.preemptionPolicy` from the PriorityClass, as the Priority admission plugin does."""
    classes = state.of(PRIORITY_CLASSES).items
    wanted = spec.get("priorityClassName")
    if wanted:
        found = classes.get(wanted)
        if found is None:
            raise forbidden("", PODS.plural, name, f"no PriorityClass with name {wanted} was found")
        chosen: Json | None = found.data
    else:
        chosen = next((each.data for each in classes.values() if each.data.get("globalDefault")), None)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    value = chosen["value"] if chosen is not None else 0
    policy = chosen.get("preemptionPolicy", "PreemptLowerPriority") if chosen is not None else "PreemptLowerPriority"
    given = spec.get("priority")
    if given is not None and given != value:
        why = (
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name"
        )
        raise forbidden("", PODS.plural, name, why)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)
