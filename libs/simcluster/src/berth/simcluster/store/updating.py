"""Update and patch: what happens to a stored object between the request and the collection."""

from typing import Any

from berth.rules.strategic_merge import PatchError, strategic_merge
from berth.simcluster.openapi.nulls import drop_nulls
from berth.simcluster.store.collection import Collection
from berth.simcluster.store.deleting import forget_if_released
from berth.simcluster.store.kinds import strategy_of
from berth.simcluster.store.objects import Json, Obj, key_of
from berth.simcluster.store.patch import json_patch, merge_patch
from berth.simcluster.store.resource import ResourceType
from berth.simcluster.store.shapes import check_shape
from berth.simcluster.store.state import State
from berth.simcluster.store.status import (
    ApiError,
    Cause,
    bad_request,
    bad_value,
    conflict,
    invalid,
    not_found,
    precondition,
    required,
)
from berth.simcluster.store.validate import metadata_causes
from berth.simcluster.store.writing import SERVER_OWNED, check_type, create, metadata_of

MERGE, STRATEGIC, JSON, APPLY = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def update(
    state: State, collection: Collection, namespace: str, name: str, data: Json, subresource: str = "", *, dry_run: bool
) -> tuple[Obj, bool]:
    """PUT. Returns the object and whether it was created."""
    resource = collection.resource
    meta = metadata_of(data)
    given = meta.get("name")
    if given and given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
    if not given:
        raise bad_request("name must be provided")
    old = collection.items.get(key_of(namespace, name))
    if old is None:
        if resource.create_on_update and not subresource:
            data["metadata"] = {key: value for key, value in meta.items() if key != "resourceVersion"}
            return create(state, collection, namespace, data, dry_run=dry_run), True
        raise not_found(resource.group, resource.plural, name)
    check_type(resource, data)
    if meta.get("uid") and meta["uid"] != old.uid:
        raise precondition(resource.group, resource.plural, old.key, "UID", str(meta["uid"]), old.uid)
    version = meta.get("resourceVersion")
    if version in (None, "", "0") and not resource.unconditional_update:
        cause = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.group, resource.kind, name, [cause])
    return store_update(state, collection, old, data, subresource, dry_run=dry_run), False


def patch(
    state: State,
    collection: Collection,
    namespace: str,
    name: str,
    body: Any,
    content_type: str,
    subresource: str = "",
    *,
    dry_run: bool = False,
) -> tuple[Obj, bool]:
    """PATCH of any type. Returns the object and whether it was created (only apply creates)."""
    resource = collection.resource
    old = collection.items.get(key_of(namespace, name))
    if old is None:
        if content_type == APPLY and not subresource and isinstance(body, dict):
            given = metadata_of(body)
            given.pop("resourceVersion", None)  # of no object: not looked at
            body["metadata"] = {**given, "name": name}
            return create(state, collection, namespace, body, dry_run=dry_run), True
        raise not_found(resource.group, resource.plural, name)
    new = _patched(resource, old.data, body, content_type)
    meta = new.get("metadata") if isinstance(new, dict) else None
    if not isinstance(meta, dict) or meta.get("name") != name:
        raise bad_request(
            "the name of the object does not match the name on the URL: a patch may not change metadata.name"
        )
    check_type(resource, new)
    status_of_custom = resource.custom and subresource == "status"  # there the metadata of the body is not looked at
    if meta.get("uid") != old.uid and not status_of_custom:
        cause = bad_value("metadata.uid", meta.get("uid"), "field is immutable")
        raise invalid(resource.group, resource.kind, name, [cause])
    if not resource.custom:
        _check_patched(resource, new)
    return store_update(state, collection, old, new, subresource, dry_run=dry_run), False


def _check_patched(resource: ResourceType, new: Json) -> None:
    """A type that does not fit is malformed in a body (400), but invalid where a patch has made it (422)."""
    try:
        check_shape(resource, new)
    except ApiError as error:
        raise invalid("", "", "", [bad_value("patch", "", error.message)]) from error


def _patched(resource: ResourceType, old: Json, body: Any, content_type: str) -> Any:
    if content_type == JSON:
        return json_patch(old, body)
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: the patch must be an object")
    if content_type == MERGE:
        return merge_patch(old, body)
    if content_type == APPLY and resource.custom:
        return merge_patch(old, body)
    if content_type == APPLY or (content_type == STRATEGIC and not resource.custom):
        try:
            return strategic_merge(old, body)
        except PatchError as error:
            raise bad_request(str(error)) from error
    accepted = ", ".join((JSON, MERGE, *(() if resource.custom else (STRATEGIC,)), APPLY))
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    raise ApiError(415, "UnsupportedMediaType", text)


def store_update(
    state: State, collection: Collection, old: Obj, new: Json, subresource: str, *, dry_run: bool = False
) -> Obj:
    """The common end of PUT and PATCH.

    Version guard, fields that stay, strategy; nothing is written if nothing changed.
    """
    resource = collection.resource
    check_shape(resource, new)
    drop_nulls(resource.group, resource.version, resource.kind, new)
    given = metadata_of(new)
    name = old.meta["name"]
    version = given.get("resourceVersion")
    if version not in (None, "", "0") and version != str(old.version):
        if not (isinstance(version, str) and version.isdigit()):
            cause = bad_value("metadata.resourceVersion", version, "must be an unsigned integer")
            raise invalid(resource.group, resource.kind, name, [cause])
        raise conflict(resource.group, resource.plural, name)
    if given.get("namespace") not in (None, "", old.meta.get("namespace")):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    strategy = strategy_of(resource)
    new["metadata"] = _next_metadata(
        old.meta, given, keep=subresource == "status" and not strategy.metadata_with_status
    )
    if resource.has_status:
        if subresource == "status":
            new = _only_status(old.data, new)
        else:
            _keep_status(old.data, new)
    strategy.update(state, resource, old, new, subresource)
    causes = metadata_causes(new["metadata"], dns_name=False) if new["metadata"] != old.meta else []
    if causes:
        raise invalid(resource.group, resource.kind, name, causes)
    if new == old.data:
        return old
    if dry_run:
        return Obj(old.key, new, old.version)
    if "deletionTimestamp" in old.meta:
        gone = forget_if_released(state, collection, old, new)
        if gone is not None:
            return gone
    return state.replace(collection, old, new)


def _next_metadata(old: Json, given: Json, *, keep: bool) -> Json:
    if keep:
        return dict(old)
    meta = {key: value for key, value in given.items() if key not in SERVER_OWNED and value is not None}
    for field in ("name", "namespace", *_KEPT):
        if field in old:
            meta[field] = old[field]
    meta["resourceVersion"] = old["resourceVersion"]
    return meta


def _only_status(old: Json, new: Json) -> Json:
    result = {**old, "metadata": new["metadata"]}
    result["status"] = new.get("status") or {}  # a kind with the subresource keeps the field
    return result


def _keep_status(old: Json, new: Json) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def need_manager(manager: str) -> None:
    """An apply patch must say who applies."""
    if not manager:
        cause: Cause = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
