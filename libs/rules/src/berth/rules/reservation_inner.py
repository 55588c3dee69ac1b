"""The inner part of a Reservation: an amount of what it holds that none of its users gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import Quantity
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.records import registry

_FIELD: Final = f"{annotation_field(names.ANNOTATION_NODE_RESERVATION)}.resources"


class _Inner(msgspec.Struct, frozen=True):
    resources: dict[str, Quantity] | None = None


def inner_part_of(annotations: Mapping[str, str]) -> tuple[Amounts, list[Problem]]:
    """What users never get, and what of the annotation cannot be used.

    What is given out one by one has no inner part: nobody says which of them users would have to leave.
    """
    read = read_annotation(annotations, names.ANNOTATION_NODE_RESERVATION, _Inner)
    if read is None:
        return {}, []
    if isinstance(read, Problem):
        return {}, [read]
    amounts, unread = parse_amounts(read.resources, _FIELD)
    problems = [Problem(field=field, message=message) for field, message in unread]
    for name in sorted(amounts.keys() & registry.GRANTED_RESOURCES):
        message = "is given out one by one, so a Reservation has no inner part of it"
        problems.append(Problem(field=f"{_FIELD}[{name}]", message=message))
        del amounts[name]
    return amounts, problems


def kept_of(amount: int, used: int, inner: int = 0) -> int:
    """What a node goes on keeping of an amount that a Reservation holds: what users leave, and at least the inner
    part."""
    return max(0, amount - used, min(amount, inner))
