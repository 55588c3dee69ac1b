"""What a client asks before it knows what is served: versions, groups, resources, health."""

from berth.simcluster.openapi.documents import openapi_document, openapi_root
from berth.simcluster.store.objects import Json, encode
from berth.simcluster.store.resource import EVENTS, EVENTS_V1_GROUP, PODS, ResourceType
from berth.simcluster.store.state import State

VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.0-berth-sim", "platform": "linux/amd64"}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_IN_ALL = frozenset(
    {
        *(("", plural) for plural in ("pods", "services", "replicationcontrollers")),
        *(("apps", plural) for plural in ("deployments", "replicasets", "statefulsets", "daemonsets")),
        ("batch", "jobs"),
    }
)
"""What `kubectl get all` shows."""
_EMPTY_V2 = ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", b"")
"""A document without paths, in the only form that kubectl asks for: it reads version 3, and this one for a List."""
_HEALTH = ("healthz", "livez", "readyz")


def discover(state: State, path: str) -> tuple[str, bytes] | None:
    """Content type and body of a discovery path; None if it is not one."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] in _HEALTH:
        return "text/plain", b"ok"
    if parts == ["openapi", "v2"]:
        return _EMPTY_V2
    body = _body(state, parts)
    return None if body is None else ("application/json", encode(body))


def _body(state: State, parts: list[str]) -> Json | None:
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["api", "v1"]:
            return _resources(state, "", "v1")
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _groups(state).items()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group]:
            versions = _groups(state).get(group)
            return None if versions is None else {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}
        case ["openapi", "v3", *rest]:
            return openapi_root(state) if not rest else openapi_document(state, rest)
        case ["apis", group, version]:
            return _resources(state, group, version) if version in _groups(state).get(group, ()) else None
        case _:
            return None


def _groups(state: State) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {EVENTS_V1_GROUP: ["v1"]}
    for collection in state.collections.values():
        resource = collection.resource
        if resource.group:
            known = groups.setdefault(resource.group, [])
            known += [version for version in resource.versions() if version not in known]
    return groups


def _group(name: str, versions: list[str]) -> Json:
    each = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": each, "preferredVersion": each[0]}


def _resources(state: State, group: str, version: str) -> Json:
    found: list[Json] = []
    for collection in state.collections.values():
        resource = collection.resource
        if resource.group == group and version in resource.versions():
            found += _entries(resource)
    if group == EVENTS_V1_GROUP:
        found += _entries(EVENTS)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": found,
    }


def _entries(resource: ResourceType) -> list[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.id in _IN_ALL:
        entry["categories"] = ["all"]
    entries = [entry]
    part = {"singularName": "", "namespaced": resource.namespaced, "kind": resource.kind}
    if resource.has_status:
        entries.append({**part, "name": f"{resource.plural}/status", "verbs": ["get", "patch", "update"]})
    if resource is PODS:
        for name, kind in (("binding", "Binding"), ("eviction", "Eviction")):
            entries.append({**part, "name": f"pods/{name}", "kind": kind, "verbs": ["create"]})
    return entries
