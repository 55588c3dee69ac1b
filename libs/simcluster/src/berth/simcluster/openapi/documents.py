"""OpenAPI v3 as kubectl needs it: for `explain`, for the merge keys of `apply`, and to know that bodies are checked."""

from collections.abc import Iterator
from typing import Any

from berth.simcluster.openapi.fields import schema_of
from berth.simcluster.openapi.schemas import KINDS, REFERENCE, name_of, schemas
from berth.simcluster.store.objects import EMPTY, Json
from berth.simcluster.store.resource import EVENTS, EVENTS_V1_GROUP, ResourceType
from berth.simcluster.store.state import State

_PATCHES = ("apply-patch+yaml", "json-patch+json", "merge-patch+json", "strategic-merge-patch+json")
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
]


def openapi_root(state: State) -> Json:
    """Which documents there are."""
    versions = {
        (resource.group, version)
        for resource in (collection.resource for collection in state.collections.values())
        for version in resource.versions()
    }
    paths = sorted(f"apis/{group}/{version}" if group else f"api/{version}" for group, version in versions)
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def openapi_document(state: State, parts: list[str]) -> Json | None:
    """The document of `["api", "v1"]` or `["apis", group, version]`; None if nothing is served there."""
    match parts:
        case ["api", version]:
            group = ""
        case ["apis", group, version]:
            pass
        case _:
            return None
    served = [
        collection.resource
        for collection in state.collections.values()
        if collection.resource.group == group and version in collection.resource.versions()
    ]
    if group == EVENTS_V1_GROUP:
        served = [EVENTS]
    if not served:
        return None
    paths: Json = {}
    needed: dict[str, Json] = {}
    for resource in served:
        name = name_of(group, version, resource.kind) if not resource.custom else _own_name(resource, version)
        schema = _schema(state, resource, version)
        needed[name] = schema
        for other in _references(schema):
            needed.setdefault(other, schemas()[other])
        paths |= _paths(resource, group, version, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.34.0-berth-sim"},
        "paths": paths,
        "components": {"schemas": needed},
    }


def _own_name(resource: ResourceType, version: str) -> str:
    return ".".join((*reversed(resource.group.split(".")), version, resource.kind))


def _schema(state: State, resource: ResourceType, version: str) -> Json:
    schema = schema_of(state, resource, version)
    if not resource.custom:
        return schema
    return {**schema, KINDS: [{"group": resource.group, "version": version, "kind": resource.kind}]}


def _references(node: Any, seen: set[str] | None = None) -> Iterator[str]:
    """Names of all schemas that a schema needs, each once."""
    known: set[str] = set() if seen is None else seen
    if isinstance(node, list):
        for each in node:
            yield from _references(each, known)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                name = value.removeprefix(REFERENCE)
                if name not in known:
                    known.add(name)
                    yield name
                    yield from _references(schemas().get(name, EMPTY), known)
            else:
                yield from _references(value, known)


def _paths(resource: ResourceType, group: str, version: str, schema: str) -> Json:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    home = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    about = {"group": group, "version": version, "kind": resource.kind}
    content = {"schema": {"$ref": f"{REFERENCE}{schema}"}}
    answer = {"200": {"description": "OK", "content": {"application/json": content}}}

    def call(action: str, body: Json | None) -> Json:
        found: Json = {"x-kubernetes-action": action, KINDS: about, "responses": answer}
        if body is not None:
            found |= {"parameters": _PARAMETERS, "requestBody": {"content": body}}
        return found

    whole = {"application/json": content}
    patches = {f"application/{kind}": {"schema": {"type": "object"}} for kind in _PATCHES}
    return {
        f"{home}/{resource.plural}": {"get": call("list", None), "post": call("post", whole)},
        f"{home}/{resource.plural}/{{name}}": {
            "get": call("get", None),
            "put": call("put", whole),
            "patch": call("patch", patches),
            "delete": call("delete", None),
        },
    }
