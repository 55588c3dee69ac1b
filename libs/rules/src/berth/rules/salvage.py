"""Reading what can be read of a part of an object that does not fit its type.

The usual way is one strict decode. Only when that fails is the part read as plain JSON and taken apart field by field:
what fits is kept, what doesn't is left out and named. `null` counts as absent, as it does in Kubernetes.
"""

from __future__ import annotations

import types
from functools import lru_cache
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

Found = list[tuple[str, str]]
"""(field, message) of each problem, in the order in which they were found."""
PROBLEMS_MAX: Final = 32

_NOTHING: Final = object()
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def read_part(raw: msgspec.Raw | bytes, kind: type[T], path: str, found: Found) -> T:
    """The struct in `raw`; a part that is no object at all is an empty struct and a problem."""
    try:
        part: T = _decoder(kind).decode(raw)
    except _UNREADABLE:
        return _read_loosely(raw, kind, path, found)
    return part


def _read_loosely(raw: msgspec.Raw | bytes, kind: type[T], path: str, found: Found) -> T:
    try:
        value = msgspec.json.decode(raw)
    except _UNREADABLE as error:
        found.append((path, f"cannot be read: {error}"))
        return kind()
    return kind() if value is None else read_value(value, kind, path, found)


def read_value(value: object, kind: type[T], path: str, found: Found) -> T:
    """The struct in a value of plain JSON, with the same leniency."""
    part = _fit(value, kind, path, found)
    if part is _NOTHING:
        return kind()
    struct: T = part
    return struct


def _fit(value: Any, kind: Any, path: str, found: Found) -> Any:
    """The value as `kind`, without those of its parts that don't fit; `_NOTHING` when nothing is left."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        problem = str(error).partition(" - at `")[0]
    bare = _bare(kind)
    if isinstance(value, dict) and isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return _fit_struct(value, bare, path, found)
    if isinstance(value, list) and get_origin(bare) is list:
        return _fit_list(value, get_args(bare)[0], path, found)
    if isinstance(value, dict) and get_origin(bare) is dict:
        return _fit_mapping(value, get_args(bare)[1], path, found)
    _note(path, problem, found)
    return _NOTHING


def _fit_struct(value: dict[str, Any], kind: type[msgspec.Struct], path: str, found: Found) -> Any:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        part = value.get(field.encode_name)
        if part is None:
            continue
        fitting = _fit(part, field.type, f"{path}.{field.encode_name}", found)
        if fitting is not _NOTHING:
            fields[field.name] = fitting
    try:
        return kind(**fields)
    except TypeError:
        missing = [f.encode_name for f in msgspec.structs.fields(kind) if f.required and f.name not in fields]
        _note(path, f"lacks {', '.join(missing)}", found)
        return _NOTHING


def _fit_list(value: list[Any], kind: Any, path: str, found: Found) -> list[Any]:
    fitting = (_fit(part, kind, f"{path}[{position}]", found) for position, part in enumerate(value))
    return [part for part in fitting if part is not _NOTHING]


def _fit_mapping(value: dict[Any, Any], kind: Any, path: str, found: Found) -> dict[str, Any]:
    fitting = {str(key): _fit(part, kind, f"{path}[{key}]", found) for key, part in value.items()}
    return {key: part for key, part in fitting.items() if part is not _NOTHING}


def _bare(kind: Any) -> Any:
    """The type without None: `list[str]` for `list[str] | None`."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [member for member in get_args(kind) if member is not type(None)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _note(path: str, problem: str, found: Found) -> None:
    if len(found) < PROBLEMS_MAX:
        found.append((path, problem))
