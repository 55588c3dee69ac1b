"""Amounts in an annotation of a Reservation: `{"resources": {...}}`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import Quantity
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.records import registry


class _Resources(msgspec.Struct, frozen=True):
    resources: dict[str, Quantity] | None = None


def field_of(annotation: str) -> str:
    """Where the amounts of an annotation stand, for a problem to name."""
    return f"{annotation_field(annotation)}.resources"


def amounts_in(annotations: Mapping[str, str], annotation: str, why_not: str) -> tuple[Amounts, list[Problem]]:
    """The amounts, and what of the annotation cannot be used. What is given out one by one is refused by name, with
    `why_not`."""
    read = read_annotation(annotations, annotation, _Resources)
    if read is None:
        return {}, []
    if isinstance(read, Problem):
        return {}, [read]
    amounts, unread = parse_amounts(read.resources, field_of(annotation))
    problems = [Problem(field=field, message=message) for field, message in unread]
    for name in sorted(amounts.keys() & registry.GRANTED_RESOURCES):
        problems.append(Problem(field=f"{field_of(annotation)}[{name}]", message=why_not))
        del amounts[name]
    return amounts, problems
