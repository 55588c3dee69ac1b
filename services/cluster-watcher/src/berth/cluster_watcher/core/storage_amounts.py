"""What the kinds of storage have in common: amounts in bytes, ways of access."""

from __future__ import annotations

from typing import Final

from berth.contracts.kube import Quantity
from berth.resources.quantity import QuantityError, parse_units
from berth.rules.reading.findings import Found

ACCESS_MODES_MAX: Final = 16


def bytes_of(quantity: Quantity | None, field: str, found: Found) -> int | None:
    """The amount; None where there is none, and where it cannot be read, which is a problem."""
    if quantity is None:
        return None
    try:
        return parse_units(quantity)
    except QuantityError as error:
        found.append((field, str(error)))
        return None


def access_modes_of(modes: list[str] | None, found: Found) -> list[str]:
    """The ways of access as written."""
    if modes is None or len(modes) <= ACCESS_MODES_MAX:
        return modes or []
    found.append(("spec.accessModes", f"has {len(modes)} entries, at most {ACCESS_MODES_MAX} are accepted"))
    return []
