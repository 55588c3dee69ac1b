"""Lists and amounts in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from berth.resources.amounts import Amounts, format_amount


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def amounts_listed(amounts: Amounts) -> list[str]:
    """`2 cpu`, `1Gi memory`, ..."""
    return [f"{format_amount(name, amount)} {name}" for name, amount in amounts.items()]
