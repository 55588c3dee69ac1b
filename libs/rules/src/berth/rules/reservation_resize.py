"""The resize key of a Reservation: what it is to hold instead of what its template asks for.

Before it is placed it is placed for that much. Afterwards it gives back what it is to hold less; its users keep what
they take. It does not grow in place: that would need capacity which somebody else may have by now.
"""

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

_FIELD: Final = f"{annotation_field(names.ANNOTATION_RESERVATION_RESIZE)}.resources"


class _Resize(msgspec.Struct, frozen=True):
    resources: dict[str, Quantity] | None = None


def resized_amounts(annotations: Mapping[str, str]) -> tuple[Amounts, list[Problem]]:
    """The amounts that are named, and what cannot be used. What is given out one by one is not resized."""
    read = read_annotation(annotations, names.ANNOTATION_RESERVATION_RESIZE, _Resize)
    if read is None:
        return {}, []
    if isinstance(read, Problem):
        return {}, [read]
    amounts, unread = parse_amounts(read.resources, _FIELD)
    problems = [Problem(field=field, message=message) for field, message in unread]
    for name in sorted(amounts.keys() & registry.GRANTED_RESOURCES):
        message = "is given out one by one, so it is not resized"
        problems.append(Problem(field=f"{_FIELD}[{name}]", message=message))
        del amounts[name]
    return amounts, problems


def given_back(held: Mapping[str, int], wanted: Mapping[str, int]) -> Amounts:
    """The amounts that become smaller, as they are to be."""
    return {name: amount for name, amount in wanted.items() if amount < held.get(name, 0)}


def growing(held: Mapping[str, int], wanted: Mapping[str, int]) -> list[Problem]:
    """What it would hold more of, which it does not get in place."""
    message = "is more than it holds: a Reservation that is placed does not grow"
    return [
        Problem(field=f"{_FIELD}[{name}]", message=message)
        for name, amount in sorted(wanted.items())
        if amount > held.get(name, 0)
    ]
