"""Types of the built-in kinds: what fits can be decoded by the API server, what does not is malformed.

As there, fields that are not known are ignored, and any field may be absent or null; an integer is no float, and no
string a number.
"""

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from berth.simcluster.openapi.schemas import INT_OR_STRING, QUANTITY, name_of, reference, schemas
from berth.simcluster.store.objects import Json

_INT32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
_INT64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_QUANTITY = Annotated[str, msgspec.Meta(pattern=r"^[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$")]
_NAMED: dict[str, Any] = {QUANTITY: _QUANTITY | int | float, INT_OR_STRING: _INT32 | str}
_PLAIN: dict[tuple[str, str], Any] = {
    ("string", ""): str,
    ("string", "byte"): str,
    ("string", "date-time"): Annotated[datetime, msgspec.Meta(tz=True)],
    ("integer", ""): _INT64,
    ("integer", "int32"): _INT32,
    ("integer", "int64"): _INT64,
    ("number", ""): int | float,
    ("number", "double"): int | float,
    ("boolean", ""): bool,
}


@lru_cache(256)
def type_of(group: str, version: str, kind: str) -> Any:
    """The type of a kind; None for one that is not built in."""
    name = name_of(group, version, kind)
    return _struct(name) if name else None


@lru_cache(1024)
def _struct(name: str) -> Any:
    """The type of a named schema."""
    if name in _NAMED:
        return _NAMED[name]
    schema = schemas()[name]
    if schema.get("type") != "object" or "properties" not in schema:
        return _type(schema)
    fields = [(f"field_{index}", _type(node) | None, None) for index, node in enumerate(schema["properties"].values())]
    names = {f"field_{index}": field for index, field in enumerate(schema["properties"])}
    return msgspec.defstruct(name.rpartition(".")[2], fields, rename=names, kw_only=True, gc=False)


def _type(node: Json) -> Any:
    name = reference(node)
    if name:
        return _struct(name)
    kind = node.get("type", "")
    if kind == "object":
        entry = node.get("additionalProperties")
        value: Any = _type(entry) | None if isinstance(entry, dict) else Any
        return dict.__class_getitem__((str, value))
    if kind == "array":
        return list.__class_getitem__(_type(node["items"]) | None)
    return _PLAIN.get((kind, node.get("format", "")), Any)
