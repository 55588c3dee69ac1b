"""The devices in a pod's `device-allocated`, with their ids, templates and virtual functions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import Quantity, View
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_json import annotation_field, read_json
from berth.vendors.vendor import Given


class _Function(View, frozen=True, kw_only=True):
    busID: str = ""  # noqa: N815 - the protocol's name


class _Extension(View, frozen=True, kw_only=True):
    vfs: list[_Function] = []
    gpuSharedResourceTemplate: str = ""  # noqa: N815 - the protocol's name


class _Device(View, frozen=True, kw_only=True):
    minor: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] = 0
    id: str = ""
    resources: dict[str, Quantity] = {}
    extension: _Extension | None = None


def read_given(text: str) -> tuple[Given, ...] | Problem:
    """The devices by kind and in the order of the record; none for an empty text."""
    field = annotation_field(names.ANNOTATION_DEVICE_ALLOCATED)
    if not text:
        return ()
    by_kind = read_json(text, dict[str, list[_Device]], field)
    if isinstance(by_kind, Problem):
        return by_kind
    given = []
    for kind, devices in sorted(by_kind.items()):
        for at, each in enumerate(devices):
            amounts, problems = parse_amounts(each.resources, f"{field}.{kind}[{at}].resources")
            if problems:
                return Problem(field=problems[0][0], message=problems[0][1])
            extension = each.extension or _Extension()
            given.append(
                Given(
                    kind=kind,
                    minor=each.minor,
                    id=each.id,
                    amounts=amounts,
                    template=extension.gpuSharedResourceTemplate,
                    functions=tuple(function.busID for function in extension.vfs if function.busID),
                )
            )
    return tuple(given)
