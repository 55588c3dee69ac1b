"""The devices in a pod's `device-allocated`, with ids, templates and virtual functions, and a container's part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import Quantity, View
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_json import annotation_field, read_json
from berth.rules.records.seam import RECORD_LENGTH_MAX
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


_BY_KIND = dict[str, list[_Device] | None]


def read_given(text: str) -> tuple[Given, ...] | Problem:
    """The devices by kind and in the order of the record; none for an empty text."""
    field = annotation_field(names.ANNOTATION_DEVICE_ALLOCATED)
    if not text:
        return ()
    by_kind = read_json(text, _BY_KIND, field, bytes_max=RECORD_LENGTH_MAX)
    return by_kind if isinstance(by_kind, Problem) else _given(by_kind, field)


def given_to(annotations: Mapping[str, str], container: str) -> tuple[Given, ...] | Problem:
    """The devices that a container gets of those of its pod, as the pod's record has them.

    Without a `container-devices`, or with an empty one, every container gets all; with one, what it says, and a
    container that it does not name gets none. Amounts that it names for a device take the place of the pod's, and may
    not be more. A problem names what is not the pod's.
    """
    whole = read_given(annotations.get(names.ANNOTATION_DEVICE_ALLOCATED, ""))
    text = annotations.get(names.ANNOTATION_CONTAINER_DEVICES, "")
    if isinstance(whole, Problem) or not whole or not text:
        return whole
    field = annotation_field(names.ANNOTATION_CONTAINER_DEVICES)
    shares = read_json(text, dict[str, _BY_KIND | None], field, bytes_max=RECORD_LENGTH_MAX)
    if isinstance(shares, Problem):
        return shares
    if not shares:
        return whole
    field = f"{field}.{container[:64]}"
    wanted = _given(shares.get(container) or {}, field)
    if isinstance(wanted, Problem):
        return wanted
    known = {(each.kind, each.minor): each for each in whole}
    found = []
    for each in wanted:
        one = _share(known.get((each.kind, each.minor)), each, f"{field}.{each.kind}[minor {each.minor}]")
        if isinstance(one, Problem):
            return one
        found.append(one)
    return tuple(found)


def _share(whole: Given | None, wanted: Given, field: str) -> Given | Problem:
    if whole is None:
        return Problem(field=field, message="is no device of the pod")
    if not set(wanted.functions) <= set(whole.functions):
        return Problem(field=f"{field}.extension.vfs", message="names a virtual function that is not the pod's")
    for name, amount in wanted.amounts.items():
        if amount > whole.amounts.get(name, 0):
            return Problem(field=f"{field}.resources[{name[:64]}]", message="is more than the pod has")
    return replace(whole, amounts=wanted.amounts or whole.amounts, functions=wanted.functions or whole.functions)


def _given(by_kind: Mapping[str, list[_Device] | None], field: str) -> tuple[Given, ...] | Problem:
    given = []
    for kind, devices in sorted(by_kind.items()):
        for at, each in enumerate(devices or ()):
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
