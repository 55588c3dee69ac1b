"""Create: what happens to an object between the request and the collection."""

from typing import Any

from berth.simcluster.openapi.nulls import drop_nulls
from berth.simcluster.store.collection import Collection
from berth.simcluster.store.kinds import strategy_of
from berth.simcluster.store.objects import Json, Obj, key_of
from berth.simcluster.store.resource import NAMESPACES, ResourceType
from berth.simcluster.store.shapes import check_shape
from berth.simcluster.store.state import State
from berth.simcluster.store.status import (
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
)
from berth.simcluster.store.validate import metadata_causes

SERVER_OWNED = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    }
)
_NAME_ATTEMPTS = 8


def create(state: State, collection: Collection, namespace: str, data: Json, *, dry_run: bool = False) -> Obj:
    """Admit and store a new object. `data` is owned by the store from here on."""
    resource = collection.resource
    check_type(resource, data)
    check_shape(resource, data)
    drop_nulls(resource.group, resource.version, resource.kind, data)
    given = metadata_of(data)
    if given.get("resourceVersion") not in (None, "", "0"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    meta: Json = {key: value for key, value in given.items() if key not in SERVER_OWNED and value is not None}
    _place(state, resource, namespace, meta)
    _name(state, collection, namespace, meta)
    meta["uid"] = state.new_uid()
    meta["creationTimestamp"] = state.stamp()
    data["metadata"] = meta
    strategy = strategy_of(resource)
    causes = metadata_causes(meta, dns_name=not resource.group.startswith("rbac."), label_name=strategy.label_name)
    if causes:
        raise invalid(resource.group, resource.kind, str(meta.get("name", "")), causes)
    key = key_of(namespace, meta["name"])
    if key in collection.items:
        raise already_exists(resource.group, resource.plural, meta["name"])
    if resource.has_status and strategy.drops_status_at_create:
        data.pop("status", None)
    if resource.custom or resource.group == "policy":
        meta["generation"] = 1
    strategy.create(state, resource, data)
    if dry_run:
        return Obj(key, data, state.version)
    return state.insert(collection, key, data)


def check_type(resource: ResourceType, data: Json) -> None:
    """`apiVersion` and `kind` fit the path; absent ones are filled in. Objects are kept in the stored version."""
    version, kind = data.get("apiVersion"), data.get("kind")
    if version is not None and not _is_served(resource, version):
        expected = resource.api_version
        text = f"the API version in the data ({version}) does not match the expected API version ({expected})"
        raise bad_request(text)
    data["apiVersion"] = resource.api_version
    if kind is not None and kind != resource.kind:
        raise bad_request(f"the object provided is unrecognized: kind {kind!r} does not match {resource.kind!r}")
    data["kind"] = resource.kind


def _is_served(resource: ResourceType, version: Any) -> bool:
    if version == resource.api_version:
        return True
    group, _, name = version.rpartition("/") if isinstance(version, str) else ("", "", "")
    return group == resource.group and name in resource.versions()


def metadata_of(data: Json) -> Json:
    """`metadata`, or an empty object. Raises 400 if it is something else."""
    meta = data.get("metadata")
    if meta is None:
        return {}
    if not isinstance(meta, dict):
        raise bad_request("the object provided is unrecognized: metadata must be an object")
    return meta


def _place(state: State, resource: ResourceType, namespace: str, meta: Json) -> None:
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    given = meta.get("namespace")
    if given and given != namespace:
        raise bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request: {given!r}"
        )
    meta["namespace"] = namespace
    home = state.of(NAMESPACES).items.get(namespace)
    if home is None:
        raise not_found("", NAMESPACES.plural, namespace)
    if "deletionTimestamp" in home.meta:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.group, resource.plural, str(meta.get("name", "")), why)


def _name(state: State, collection: Collection, namespace: str, meta: Json) -> None:
    base = meta.get("generateName")
    if meta.get("name") or not isinstance(base, str) or not base:
        return
    for _ in range(_NAME_ATTEMPTS):
        meta["name"] = base[:58] + state.new_suffix()
        if key_of(namespace, meta["name"]) not in collection.items:
            return
