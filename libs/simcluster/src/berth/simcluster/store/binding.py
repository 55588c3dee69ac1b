"""`pods/binding`: the one atomic call that gives a pod its node and the scheduler's annotations.

The order of the checks and their texts are the API server's: preconditions first, then deletion, node, gates. A node
that does not exist is accepted.
"""

from berth.simcluster.store.objects import Json, Obj, section, with_condition
from berth.simcluster.store.resource import PODS
from berth.simcluster.store.shapes import Binding, check
from berth.simcluster.store.state import State
from berth.simcluster.store.status import (
    ApiError,
    Cause,
    bad_request,
    conflict,
    precondition,
    required,
    unsupported,
)


def bind(state: State, namespace: str, name: str, binding: Json, *, dry_run: bool = False) -> Obj:
    """Bind a pod; annotations of the binding are merged into the pod's in the same write (labels are not)."""
    check(binding, Binding, "Binding")
    meta = section(binding, "metadata")
    if meta.get("name") not in (None, "", name):
        raise bad_request("name in URL does not match name in Binding object")
    target = section(binding, "target")
    annotations = meta.get("annotations") or {}
    _check(target)
    pods = state.of(PODS)
    pod = state.need(pods, namespace, name)
    _preconditions(pod, meta)
    node = target["name"]
    refused = _refusal(pod, name)
    if refused:
        raise conflict("", "pods/binding", name, refused)
    data = _bound(state, pod.data, node, annotations)
    return Obj(pod.key, data, state.version) if dry_run else state.replace(pods, pod, data)


def _check(target: Json) -> None:
    """What is wrong here is no Status of the API server's own making, but a plain error: 500 without a reason."""
    causes: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(unsupported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:
        raise ApiError(500, "", ", ".join(f"{cause.field}: {cause.message}" for cause in causes))


def _preconditions(pod: Obj, meta: Json) -> None:
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    if uid and uid != pod.uid:
        raise precondition("", PODS.plural, pod.key, "UID", str(uid), pod.uid)
    if version and version != str(pod.version):
        raise precondition("", PODS.plural, pod.key, "ResourceVersion", str(version), str(pod.version))


def _refusal(pod: Obj, name: str) -> str:
    spec = pod.data["spec"]
    if "deletionTimestamp" in pod.meta:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(state: State, old: Json, node: str, annotations: Json) -> Json:
    meta = dict(old["metadata"])
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    status = old["status"]
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": state.stamp(),
    }
    return {
        **old,
        "metadata": meta,
        "spec": {**old["spec"], "nodeName": node},
        "status": {**status, "conditions": with_condition(status.get("conditions"), condition)},
    }


def legacy_name(binding: Json) -> str:
    """The pod named by a `POST bindings`, the older path of the same call."""
    check(binding, Binding, "Binding")
    name = section(binding, "metadata").get("name")
    if not name:
        raise ApiError(400, "BadRequest", "name must be provided")
    return str(name)
