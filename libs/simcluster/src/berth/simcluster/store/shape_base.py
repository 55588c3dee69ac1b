"""What every shape has: fields that may be absent or null, and `metadata`."""

from __future__ import annotations

import msgspec

from berth.simcluster.store.objects import Json


class Shape(msgspec.Struct, kw_only=True):
    """Fields that are not named are ignored; named ones may be absent or null."""


class Meta(Shape):
    """ObjectMeta."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815 - names of the wire
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[Json] | None = None  # noqa: N815


class Plain(Shape):
    """Any object."""

    metadata: Meta | None = None
