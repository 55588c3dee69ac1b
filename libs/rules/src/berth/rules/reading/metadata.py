"""What the metadata of every kind have in common: which annotations are carried, Berth's own ones, times, names."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from berth.contracts.kube import Meta
from berth.contracts.names import ANNOTATION_ATTEMPT, ANNOTATION_PLAN, ANNOTATION_STORAGE_CLASS, READ_PREFIXES
from berth.rules.reading.findings import Found, bounded_name, shortened

ATTEMPT_MAX: Final = 10**9
_TIME_LENGTH_MAX: Final = 64
_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class Identity(NamedTuple):
    """Namespace and name as they go on the bus."""

    namespace: str
    name: str


def identity_of(meta: Meta, found: Found) -> Identity:
    """The name of the object; one that is longer than any API server accepts is cut off and a problem."""
    return Identity(
        bounded_name(meta.namespace, "metadata.namespace", found), bounded_name(meta.name, "metadata.name", found)
    )


def carried(annotations: dict[str, str] | None) -> dict[str, str]:
    """The annotations that Berth reads."""
    if not annotations:
        return {}
    return {name: value for name, value in annotations.items() if name.startswith(READ_PREFIXES)}


def attempt_of(annotations: dict[str, str], found: Found) -> int:
    """How many decisions for this object were withdrawn; 0 when that cannot be read, which is a problem."""
    text = annotations.get(ANNOTATION_ATTEMPT)
    if text is None:
        return 0
    if _NUMBER.fullmatch(text) is None or int(text) > ATTEMPT_MAX:
        message = f"{shortened(text, 40)!r} is not an integer between 0 and {ATTEMPT_MAX}"
        found.append((f"metadata.annotations[{ANNOTATION_ATTEMPT}]", message))
        return 0
    return int(text)


def plan_of(annotations: dict[str, str]) -> str:
    """The plan that the object was bound under."""
    return annotations.get(ANNOTATION_PLAN, "")


def controller_of(meta: Meta) -> str:
    """The uid of the controlling owner; empty if there is none."""
    return next((owner.uid for owner in meta.owner_references or () if owner.controller), "")


def named_storage_class(meta: Meta, field: str | None) -> str | None:
    """The StorageClass that an object names, in an annotation of old or in the field; None if in neither."""
    return (meta.annotations or {}).get(ANNOTATION_STORAGE_CLASS, field)


def time_of(text: str | None, field: str, found: Found) -> str:
    """An RFC 3339 time as it stands, empty if there is none; another text is left out and a problem."""
    if not text:
        return ""
    if _TIME.fullmatch(text) is None:
        found.append((field, f"{shortened(text, _TIME_LENGTH_MAX)!r} is not a time such as 2024-05-01T12:00:00Z"))
        return ""
    return text
