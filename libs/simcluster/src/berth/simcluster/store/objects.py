"""Stored objects: a decoded dict, its bytes, its version; all three never change once stored.

Every write makes a new `Obj` that shares the untouched parts of the old one, and encodes it once. The same bytes then
answer the writer, every list and every watch. So nobody may mutate what `data` holds; copies are made level by level
where something changes.
"""

from typing import Any

import msgspec

Json = dict[str, Any]

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

EMPTY: Json = {}


class Obj:
    """One version of one object. `key` is `namespace/name`, or `name` for cluster-scoped resources."""

    __slots__ = ("data", "key", "raw", "version")

    def __init__(self, key: str, data: Json, version: int) -> None:
        """Stamp the version into `data["metadata"]` (which must be fresh) and encode."""
        data["metadata"]["resourceVersion"] = str(version)
        self.key = key
        self.data = data
        self.version = version
        self.raw: bytes = encode(data)

    @property
    def meta(self) -> Json:
        """`metadata`."""
        meta: Json = self.data["metadata"]
        return meta

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        uid: str = self.data["metadata"]["uid"]
        return uid


def key_of(namespace: str, name: str) -> str:
    """The key of an object; no namespace means cluster-scoped."""
    return f"{namespace}/{name}" if namespace else name


def section(data: Json, field: str) -> Json:
    """A sub-object, or an empty one if it is absent or null. Not to be mutated."""
    value = data.get(field)
    return value if isinstance(value, dict) else EMPTY


def with_condition(conditions: Any, condition: Json) -> list[Json]:
    """`conditions` with the one of the same type replaced, or appended.

    Keeps `lastTransitionTime` while the status stays.
    """
    result: list[Json] = []
    placed = False
    for old in conditions or ():
        if old.get("type") != condition["type"]:
            result.append(old)
            continue
        if old.get("status") == condition["status"] and old.get("lastTransitionTime"):
            condition = {**condition, "lastTransitionTime": old["lastTransitionTime"]}
        result.append(condition)
        placed = True
    if not placed:
        result.append(condition)
    return result


def condition_status(data: Json, kind: str) -> str:
    """Status of the condition of that type in `status.conditions`; `""` when there is none."""
    for condition in section(data, "status").get("conditions") or ():
        if condition.get("type") == kind:
            return str(condition.get("status", ""))
    return ""
