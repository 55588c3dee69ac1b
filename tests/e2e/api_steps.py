"""Requests to an API server, in as few words as a table of them can bear: the verbs, and the objects they send.

`$ns`, `$uid` and `$version` in a path or body stand for what whoever sends it puts there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Json = Any
MERGE, STRATEGIC, JSON, APPLY = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
NOBODY = "00000000-0000-0000-0000-000000000000"


class Step(NamedTuple):
    """One request; of the object in the answer these dotted fields are compared."""

    method: str
    path: str
    body: Json = None
    fields: tuple[str, ...] = ("metadata.name", "metadata.labels", "metadata.annotations")
    kind: str = "application/json"


def pod(name: str, spec: Json | None = None, **meta: Json) -> Json:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"schedulerName": "nobody", "containers": [container], **(spec or {})},
    }


def binding(name: str, node: str = "n1", target: Json = None, **meta: Json) -> Json:
    node_of = {"apiVersion": "v1", "kind": "Node", "name": node} if target is None else target
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": node_of}


def stored(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def of_storage(kind: str, **parts: Json) -> Json:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": "$ns"}, **parts}


def storage_class(mode: str | None) -> Json:
    modes = {} if mode is None else {"volumeBindingMode": mode}
    return of_storage("StorageClass", provisioner="example.com", **modes)


def post(path: str, body: Json, *fields: str) -> Step:
    return Step("POST", path, body, (*Step._field_defaults["fields"], *fields))


def patch(path: str, body: Json, *fields: str, kind: str = MERGE) -> Step:
    return Step("PATCH", path, body, (*Step._field_defaults["fields"], *fields), kind)


def get(path: str, *fields: str) -> Step:
    return Step("GET", path, None, (*Step._field_defaults["fields"], *fields))


def delete(path: str, body: Json = None, *fields: str) -> Step:
    return Step("DELETE", path, body, (*Step._field_defaults["fields"], *fields))


def options(**more: Json) -> Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **more}


def group(name: str = "g", **more: Json) -> Json:
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": {"minMember": 2}, **more}


def reservation(**more: Json) -> Json:
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation"}
    spec = {"template": {"spec": {"containers": []}}, "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}]}
    return {**kind, "metadata": {"name": "$ns"}, "spec": spec, **more}


def device(**spec: Json) -> Json:
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    return {**kind, "metadata": {"name": "$ns"}, "spec": spec}


def lease(**more: Json) -> Json:
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**kind, "metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}, **more}


def budget(**spec: Json) -> Json:
    selector = {"selector": {"matchLabels": {"app": "web"}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": selector | spec,
    }


def eviction(name: str, **more: Json) -> Json:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
