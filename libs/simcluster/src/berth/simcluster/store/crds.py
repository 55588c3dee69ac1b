"""Custom resource definitions: a stored CRD becomes a served resource, a deleted one takes its objects with it."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from berth.simcluster.store.collection import DELETED, Event
from berth.simcluster.store.objects import Json, Obj, decode, encode, section
from berth.simcluster.store.resource import BUILT_IN, CRDS, ResourceType
from berth.simcluster.store.schema import Schema
from berth.simcluster.store.state import State
from berth.simcluster.store.status import Cause, bad_value, invalid, required
from berth.simcluster.store.strategies import Strategy

VERSIONS_LIMIT = 20
_TAKEN = frozenset(resource.id for resource in BUILT_IN)


class CrdStrategy(Strategy):
    """CustomResourceDefinitions are accepted at once: there are no naming conflicts to wait for."""

    def create(self, state: State, resource: ResourceType, data: Json) -> None:
        """Check that it compiles; mark it established."""
        compiled = compile_crd(data)
        now = state.stamp()
        data["status"] = {
            "acceptedNames": section(data, "spec")["names"],
            "storedVersions": [compiled.version],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
                for kind, reason, message in (
                    ("NamesAccepted", "NoConflicts", "no conflicts found"),
                    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                )
            ],
        }

    def update(self, state: State, resource: ResourceType, old: Obj, new: Json, subresource: str) -> None:
        """Check that it still compiles and names the same resource."""
        before, after = compile_crd(old.data), compile_crd(new)
        if before.id != after.id or before.namespaced != after.namespaced:
            cause = bad_value("spec", None, "group, names.plural and scope are immutable")
            raise invalid(CRDS.group, CRDS.kind, new["metadata"]["name"], [cause])


def compile_crd(data: Json) -> ResourceType:
    """The resource that a CRD describes. Raises 422 naming the field that can't be used."""
    spec, name = section(data, "spec"), data["metadata"].get("name", "")
    names = section(spec, "names")
    causes: list[Cause] = [
        required(field)
        for field, value in (
            ("spec.group", spec.get("group")),
            ("spec.names.plural", names.get("plural")),
            ("spec.names.kind", names.get("kind")),
            ("spec.versions", spec.get("versions")),
        )
        if not value
    ]
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        causes.append(bad_value("spec.scope", spec.get("scope"), "must be Namespaced or Cluster"))
    versions = [each for each in spec.get("versions") or () if each.get("name")]
    stored = [each for each in versions if each.get("storage")]
    if len(stored) != 1 or len(versions) > VERSIONS_LIMIT:
        causes.append(
            bad_value("spec.versions", len(stored), "must have exactly one version marked as storage version")
        )
    if (spec.get("group"), names.get("plural")) in _TAKEN:
        causes.append(bad_value("spec.group", spec.get("group"), "is served by the API server itself"))
    if not causes and name != f"{names['plural']}.{spec['group']}":
        causes.append(bad_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if causes:
        raise invalid(CRDS.group, CRDS.kind, name, causes)
    return ResourceType(
        group=spec["group"],
        version=stored[0]["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in section(stored[0], "subresources"),
        custom=True,
        unconditional_update=False,
        short_names=tuple(names.get("shortNames") or ()),
        served=tuple(each["name"] for each in versions if each.get("served", True)),
        schemas={each["name"]: _schema(name, each) for each in versions},
    )


@lru_cache(64)  # the same few definitions come again: with every change of their objects, and in every store
def _compiled(schema: bytes) -> Schema:
    return Schema(decode(schema), root=True)


def _schema(name: str, version: Json) -> Schema:
    spec = section(section(version, "schema"), "openAPIV3Schema")
    try:
        return _compiled(encode(spec or {"x-kubernetes-preserve-unknown-fields": True}))
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError, re.error) as error:
        field = f"spec.versions[{version['name']}].schema.openAPIV3Schema"
        raise invalid(CRDS.group, CRDS.kind, name, [bad_value(field, None, f"does not compile: {error}")]) from error


def follow_crds(state: State) -> None:
    """Keep the served resources equal to the CRDs in the store from now on."""

    def changed(event: Event) -> None:
        if event.resource is not CRDS:
            return
        resource = compile_crd(event.obj.data)
        if event.kind != DELETED:
            state.add_resource(resource)
            return
        collection = state.collections.get(resource.id)
        if collection is not None:
            for obj in list(collection.items.values()):
                state.remove(collection, obj)
            state.drop_resource(*resource.id)

    state.listeners.append(changed)


def find_crds(folder: Path | None) -> list[Json]:
    """All CRD manifests in a folder, or those that come with the contracts when it is None.

    YAML is read if PyYAML is installed.
    """
    root: Traversable
    if folder is not None:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder of CRDs")
        root = folder
    else:
        from importlib.resources import files

        root = files("berth.contracts") / "crds"
        if not root.is_dir():
            return []
    found: dict[str, Json] = {}
    for entry in sorted(root.iterdir(), key=lambda each: (each.name.endswith(".json"), each.name)):
        if entry.name.endswith((".json", ".yaml", ".yml")):
            for manifest in _documents(entry):
                if manifest.get("kind") == CRDS.kind:
                    found[section(manifest, "metadata").get("name", "")] = manifest
    return list(found.values())


def _documents(entry: Traversable) -> Iterator[Json]:
    text = entry.read_text(encoding="utf-8")
    documents: list[Any]
    try:
        if entry.name.endswith(".json"):
            documents = [json.loads(text)]
        else:
            documents = list(import_module("yaml").safe_load_all(text))
    except ModuleNotFoundError as error:
        raise ValueError(f"{entry.name}: reading YAML needs PyYAML; give JSON instead") from error
    except Exception as error:  # the parsers have no common base class, and the file must be named
        raise ValueError(f"{entry.name}: {error}") from error
    for document in documents:
        if isinstance(document, dict):
            yield from (each for each in document.get("items", [document]) if isinstance(each, dict))
