"""What other frameworks have taken of a node's batch resources, by the node's annotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, add_into, parse_amounts
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BATCH

ALLOCATIONS_MAX: Final = 256
REVISION_MAX: Final = 1 << 53
TAKEN: Final = (names.BATCH_CPU, names.BATCH_MEMORY)
_FIELD: Final = annotation_field(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS)


class _Allocation(msgspec.Struct, frozen=True):
    name: str = ""
    priority: str = ""
    resources: dict[str, Any] | None = None
    revision: Any = 0


class _Allocations(msgspec.Struct, frozen=True):
    allocations: list[_Allocation] | None = None


def taken_by_third_parties(annotations: Mapping[str, str], before: Mapping[str, int]) -> tuple[Amounts, Problem | None]:
    """What they have taken in all, and what is wrong with the annotation.

    A word that cannot be read gives nothing back: what was taken before stays taken.
    """
    read = read_annotation(annotations, names.ANNOTATION_THIRD_PARTY_ALLOCATIONS, _Allocations)
    if read is None:
        return {}, None
    if isinstance(read, Problem):
        return dict(before), read
    allocations = read.allocations or []
    if len(allocations) > ALLOCATIONS_MAX:
        return dict(before), Problem(field=f"{_FIELD}.allocations", message=f"has more than {ALLOCATIONS_MAX} entries")
    total: Amounts = {}
    for at, each in enumerate(allocations):
        if each.priority != BATCH:
            continue
        amounts, problems = parse_amounts(each.resources, f"{_FIELD}.allocations[{at}].resources")
        if problems:
            field, message = problems[0]
            return dict(before), Problem(field=field, message=message)
        add_into(total, {name: amount for name, amount in amounts.items() if name in TAKEN})
    return total, None


def revisions_of(annotations: Mapping[str, str]) -> dict[str, int]:
    """The revisions that entries name, by the names of their third parties: who changes its entry sees by it which
    offer has followed."""
    read = read_annotation(annotations, names.ANNOTATION_THIRD_PARTY_ALLOCATIONS, _Allocations)
    if read is None or isinstance(read, Problem) or len(read.allocations or ()) > ALLOCATIONS_MAX:
        return {}
    return {
        each.name: each.revision
        for each in read.allocations or ()
        if type(each.revision) is int and 0 < each.revision < REVISION_MAX
    }
