"""The resize key of a Reservation: what it is to hold instead of what its template asks for.

Before it is placed it is placed for that much. Afterwards it gives back what it is to hold less; its users keep what
they take. It does not grow in place: that would need capacity which somebody else may have by now.
"""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts
from berth.rules.reservation_amounts import amounts_in, field_of


def resized_amounts(annotations: Mapping[str, str]) -> tuple[Amounts, list[Problem]]:
    """The amounts that are named, and what cannot be used. What is given out one by one is not resized."""
    return amounts_in(annotations, names.ANNOTATION_RESERVATION_RESIZE, "is given out one by one, so it is not resized")


def given_back(held: Mapping[str, int], wanted: Mapping[str, int]) -> Amounts:
    """The amounts that become smaller, as they are to be."""
    return {name: amount for name, amount in wanted.items() if amount < held.get(name, 0)}


def growing(held: Mapping[str, int], wanted: Mapping[str, int]) -> list[Problem]:
    """What it would hold more of, which it does not get in place."""
    message = "is more than it holds: a Reservation that is placed does not grow"
    field = field_of(names.ANNOTATION_RESERVATION_RESIZE)
    return [
        Problem(field=f"{field}[{name}]", message=message)
        for name, amount in sorted(wanted.items())
        if amount > held.get(name, 0)
    ]
