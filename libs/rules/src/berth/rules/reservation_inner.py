"""The inner part of a Reservation: an amount of what it holds that none of its users gets."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts
from berth.rules.reservation_amounts import amounts_in


def inner_part_of(annotations: Mapping[str, str]) -> tuple[Amounts, list[Problem]]:
    """What users never get, and what of the annotation cannot be used.

    What is given out one by one has no inner part: nobody says which of them users would have to leave.
    """
    why_not = "is given out one by one, so a Reservation has no inner part of it"
    return amounts_in(annotations, names.ANNOTATION_NODE_RESERVATION, why_not)


def kept_of(amount: int, used: int, inner: int = 0) -> int:
    """What a node goes on keeping of an amount that a Reservation holds: what users leave, and at least the inner
    part."""
    return max(0, amount - used, min(amount, inner))
