"""The types of a CustomResourceDefinition's fields, down to the nodes of its schemas."""

from __future__ import annotations

from typing import Any

from berth.simcluster.store.objects import Json
from berth.simcluster.store.shape_base import Plain, Shape


class SchemaNode(Shape, rename={"one_of": "oneOf", "any_of": "anyOf", "all_of": "allOf", "not_": "not"}):
    """A node of an `openAPIV3Schema`."""

    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    properties: dict[str, SchemaNode] | None = None
    additionalProperties: bool | SchemaNode | None = None  # noqa: N815
    items: SchemaNode | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    nullable: bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusiveMinimum: bool | None = None  # noqa: N815
    exclusiveMaximum: bool | None = None  # noqa: N815
    minLength: int | None = None  # noqa: N815
    maxLength: int | None = None  # noqa: N815
    minItems: int | None = None  # noqa: N815
    maxItems: int | None = None  # noqa: N815
    minProperties: int | None = None  # noqa: N815
    maxProperties: int | None = None  # noqa: N815
    all_of: list[SchemaNode] | None = None
    any_of: list[SchemaNode] | None = None
    one_of: list[SchemaNode] | None = None
    not_: SchemaNode | None = None


class VersionSchema(Shape):
    """`schema` of a version."""

    openAPIV3Schema: SchemaNode | None = None  # noqa: N815


class Version(Shape):
    """A version of a CRD."""

    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    subresources: Json | None = None
    schema: VersionSchema | None = None


class Names(Shape):
    """`names` of a CRD."""

    kind: str | None = None
    plural: str | None = None
    shortNames: list[str] | None = None  # noqa: N815


class CrdSpec(Shape):
    """`spec` of a CRD."""

    group: str | None = None
    scope: str | None = None
    names: Names | None = None
    versions: list[Version] | None = None


class Crd(Plain):
    """A CustomResourceDefinition."""

    spec: CrdSpec | None = None
