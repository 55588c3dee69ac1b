"""The types of the fields of a body, per kind.

The API server refuses a body whose types don't fit while it decodes it (400, naming the place), so that everything
behind that may take the types for granted. Built-in kinds have the types of their published schemas; the bodies that
are no objects of a kind are partial structs here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.simcluster.openapi.types import type_of
from berth.simcluster.store.crd_shape import Crd
from berth.simcluster.store.resource import CRDS, ResourceType
from berth.simcluster.store.shape_base import Plain, Shape
from berth.simcluster.store.status import bad_request


class Target(Shape):
    """What a Binding points to."""

    kind: str | None = None
    name: str | None = None


class Binding(Plain):
    """A Binding."""

    target: Target | None = None


class Preconditions(Shape):
    """Of a `DeleteOptions`."""

    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class DeleteOptions(Shape):
    """A DeleteOptions."""

    gracePeriodSeconds: int | None = None  # noqa: N815
    preconditions: Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


class Eviction(Plain):
    """An Eviction."""

    deleteOptions: DeleteOptions | None = None  # noqa: N815


def check_shape(resource: ResourceType, data: Any) -> None:
    """Raise 400 if a field of an object has a type that its kind does not allow."""
    shape = Crd if resource is CRDS else type_of(resource.group, resource.version, resource.kind)
    check(data, shape or Plain, resource.kind)


def check(data: Any, shape: Any, kind: str) -> None:
    """Raise 400 if the data don't fit a shape; the text names the place, such as `$.spec.nodeName`."""
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body cannot be handled as a {kind}: {error}") from error
