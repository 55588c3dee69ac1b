"""What every object has: its identity, the owners it names, the conditions of its status.

`View` is the base of every partial view; which fields there are is said where the kind is.
"""

from __future__ import annotations

import msgspec

Quantity = str | int | float


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of the partial views."""


class OwnerReference(View, frozen=True, kw_only=True):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(View, frozen=True, kw_only=True):
    """metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnyObject(View, frozen=True, kw_only=True):
    """An object of which only the metadata could be read."""

    metadata: Meta
    kind: str = ""
    api_version: str = ""


class Condition(View, frozen=True, kw_only=True):
    """A condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
