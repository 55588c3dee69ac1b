"""Lists, amounts and names in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from berth.resources.amounts import Amounts, format_amount
from berth.transaction.claims import Name


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def amounts_listed(amounts: Amounts) -> list[str]:
    """`2 cpu`, `1Gi memory`, ..."""
    return [f"{format_amount(name, amount)} {name}" for name, amount in amounts.items()]


def text_of(name: Name) -> str:
    """How answers call a pod, or a Reservation (its namespace is empty)."""
    return f"{name[0]}/{name[1]}" if name[0] else f"reservation/{name[1]}"
