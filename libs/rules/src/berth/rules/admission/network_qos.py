"""Bandwidth that QoS classes are promised: one notation for all, and no more than there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.contracts.base import Problem
from berth.resources.quantity import QuantityError, parse_units
from berth.rules.admission.draft import mapping_in

CLASSES: Final = ("lsrClass", "lsClass", "beClass")
DIRECTIONS: Final = ("ingressRequest", "egressRequest")
_WHOLE: Final = 100


def network_problem(strategy: Mapping[str, Any], total: Any = None) -> Problem | None:
    """What is wrong with the requests of a strategy for QoS; None: nothing.

    Args:
        strategy: with a `networkQOS` for each class; a request is an integer, percent, or a quantity, bits a second.
        total: the bandwidth that quantities are parts of; None or 0: not known, and sums are not compared with it.
    """
    notation: type | None = None
    have = 0
    if total is not None:
        try:
            have = parse_units(total)
        except QuantityError:
            have = 0  # said where it is written
    for direction in DIRECTIONS:
        promised = 0
        for name in CLASSES:
            request = mapping_in(strategy, name, "networkQOS").get(direction)
            if request is None:
                continue
            field = f"{name}.networkQOS.{direction}"
            kind = str if isinstance(request, str) else int
            if notation not in (None, kind):
                return Problem(field=field, message="percent and quantities do not go together")
            notation = kind
            amount = _amount(request)
            if isinstance(amount, str):
                return Problem(field=field, message=amount)
            promised += amount
        limit = _WHOLE if notation is int else have
        if limit and promised > limit:
            what = "percent" if notation is int else "bits a second"
            text = f"the classes are promised {promised} of {limit} {what}"
            return Problem(field=f"networkQOS.{direction}", message=text)
    return None


def _amount(request: Any) -> int | str:
    """The amount, or what is wrong with it."""
    if isinstance(request, str):
        try:
            return parse_units(request)
        except QuantityError as error:
            return str(error)
    if isinstance(request, bool) or not isinstance(request, int) or not 0 <= request <= _WHOLE:
        return "is no integer from 0 to 100, and no quantity as text"
    return request
