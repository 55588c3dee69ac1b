"""`device-joint-allocate`: device types whose devices lie close together, the first of them leading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube.meta import View
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.devices.columns import FAMILIES

SAME_PCIE: Final = "SamePCIe"
SAME_NUMA: Final = "SameNUMANode"
"""Berth's own: the same NUMA nodes instead of the same PCIe roots."""

_FIELD: Final = annotation_field(names.ANNOTATION_DEVICE_JOINT)


class JointRequest(NamedTuple):
    """The types, each once, and the places that all of them must have in common; empty `scope`: a preference only."""

    types: tuple[str, ...]
    scope: str = ""


class _Joint(View, frozen=True, kw_only=True):
    device_types: list[str] = []
    required_scope: str = ""


def read_joint(annotations: Mapping[str, str]) -> JointRequest | Problem | None:
    """What the annotation says, None without one."""
    found = read_annotation(annotations, names.ANNOTATION_DEVICE_JOINT, _Joint)
    if not isinstance(found, _Joint):
        return found
    for at, kind in enumerate(found.device_types):
        if kind not in FAMILIES:
            known = ", ".join(FAMILIES)
            return Problem(field=f"{_FIELD}.deviceTypes[{at}]", message=f"{kind[:80]!r} is none of {known}")
    if found.required_scope not in ("", SAME_PCIE, SAME_NUMA):
        message = f"{found.required_scope[:80]!r} is none of {SAME_PCIE}, {SAME_NUMA}"
        return Problem(field=f"{_FIELD}.requiredScope", message=message)
    return JointRequest(tuple(dict.fromkeys(found.device_types)), found.required_scope)
