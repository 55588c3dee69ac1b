"""The schemas of the built-in kinds, and how one refers to another."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from berth.simcluster.store.objects import EMPTY, Json

REFERENCE = "#/components/schemas/"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
KINDS = "x-kubernetes-group-version-kind"


@lru_cache(1)
def schemas() -> dict[str, Json]:
    """All of them by name. Not to be changed."""
    text = (files("berth.simcluster.openapi") / "kubernetes.json").read_text(encoding="utf-8")
    found: dict[str, Json] = json.loads(text)
    return found


@lru_cache(1)
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in schemas().items()
        for kind in schema.get(KINDS, ())
    }


def name_of(group: str, version: str, kind: str) -> str:
    """Name of the schema of a built-in kind; empty if there is none."""
    return _names().get((group, version, kind), "")


def reference(node: Json) -> str:
    """The name that a schema refers to, directly or as its only `allOf`; empty if it says all itself."""
    target = node.get("$ref")
    if target is None and len(node.get("allOf") or ()) == 1:
        target = node["allOf"][0].get("$ref")
    return target.removeprefix(REFERENCE) if isinstance(target, str) else ""


def resolved(node: Json) -> Json:
    """The schema itself, or the one that it refers to."""
    name = reference(node)
    return schemas().get(name, EMPTY) if name else node


def zero_of(node: Json) -> Any:
    """What a null becomes where something has to be: in a list, or as the value of a map."""
    if reference(node) == QUANTITY:
        return "0"
    empty = {"string": "", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
    return empty.get(resolved(node).get("type", ""))


def without_nulls(value: Any, node: Json, *, fields_too: bool = True) -> Any:
    """A value as the API server keeps it: a field that is null is absent, an entry that is null is the empty value.

    `fields_too`: whether fields go, or only entries of lists and maps are replaced.
    """
    node = resolved(node)
    if isinstance(value, dict):
        fields = node.get("properties")
        if fields is not None:
            kept = {name: each for name, each in value.items() if each is not None or not fields_too}
            return {
                name: without_nulls(each, fields.get(name, EMPTY), fields_too=fields_too) for name, each in kept.items()
            }
        entry = node.get("additionalProperties")
        if isinstance(entry, dict):
            return {name: _entry(each, entry, fields_too) for name, each in value.items()}
    elif isinstance(value, list) and isinstance(node.get("items"), dict):
        return [_entry(each, node["items"], fields_too) for each in value]
    return value


def _entry(value: Any, node: Json, fields_too: bool) -> Any:
    return zero_of(node) if value is None else without_nulls(value, node, fields_too=fields_too)


def unknown_fields(value: Any, node: Json, path: str = "") -> list[str]:
    """Paths of the fields that a schema does not have, in the order found.

    Structural schemas of custom resources may preserve what they don't know. Directives of patches are no fields.
    """
    found: list[str] = []
    node = resolved(node)
    if isinstance(value, dict):
        fields = node.get("properties")
        entry = node.get("additionalProperties")
        keeps = node.get("x-kubernetes-preserve-unknown-fields") or not node.get("type")
        for name, each in value.items():
            where = f"{path}.{name}" if path else name
            if fields is not None and name in fields:
                found += unknown_fields(each, fields[name], where)
            elif isinstance(entry, dict):
                found += unknown_fields(each, entry, where)
            elif fields is not None and not entry and not keeps and not name.startswith("$"):
                found.append(where)
    elif isinstance(value, list) and isinstance(node.get("items"), dict):
        for index, each in enumerate(value):
            found += unknown_fields(each, node["items"], f"{path}[{index}]")
    return found
