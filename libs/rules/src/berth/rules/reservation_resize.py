"""The resize key of a Reservation: what it is to hold instead of what its template asks for.

Before it is placed it is placed for that much. Afterwards it gives back what it is to hold less; its users keep what
they take. What it is to hold more it gets in place, by a decision of its own, once its node has that free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import CPU, ZONE
from berth.contracts.ledger import Grant
from berth.resources.amounts import Amounts
from berth.rules.reservation_amounts import amounts_in, field_of


def resized_amounts(annotations: Mapping[str, str]) -> tuple[Amounts, list[Problem]]:
    """The amounts that are named, and what cannot be used. What is given out one by one is not resized."""
    return amounts_in(annotations, names.ANNOTATION_RESERVATION_RESIZE, "is given out one by one, so it is not resized")


def given_back(held: Mapping[str, int], wanted: Mapping[str, int]) -> Amounts:
    """The amounts that become smaller, as they are to be."""
    return {name: amount for name, amount in wanted.items() if amount < held.get(name, 0)}


def growth(held: Mapping[str, int], wanted: Mapping[str, int]) -> Amounts:
    """The amounts that become larger, as they are to be."""
    return {name: amount for name, amount in wanted.items() if amount > held.get(name, 0)}


def growth_asked(annotations: Mapping[str, str], held: Mapping[str, int]) -> Amounts:
    """What a Reservation that is placed and holds this is to hold more of, as it is to be."""
    if names.ANNOTATION_RESERVATION_RESIZE not in annotations:
        return {}
    return growth(held, resized_amounts(annotations)[0])


def why_not_growing(grants: Iterable[Grant], *, takes_over: bool) -> Problem | None:
    """Why a Reservation that is placed cannot grow, whatever its node has free; None: it can."""
    field = field_of(names.ANNOTATION_RESERVATION_RESIZE)
    if takes_over:
        return Problem(field=field, message="does not grow: it takes over pods that run")
    if any(grant.kind in (CPU, ZONE) for grant in grants):
        return Problem(field=field, message="does not grow: it holds CPUs or shares of NUMA nodes of its own")
    return None
