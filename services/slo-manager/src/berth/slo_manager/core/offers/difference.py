"""Whether what a node shows differs enough from what it lends to be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal


def differs(old: Mapping[str, int | None], new: Mapping[str, int | None], name: str, threshold: float) -> bool:
    """Whether one side alone names the resource, or the change is more than so large a part of the old amount."""
    before, after = old.get(name), new.get(name)
    if before is None or after is None:
        return before is not after
    return abs(after - before) > before * Decimal(repr(threshold))


def differs_at_all(old: Mapping[str, int | None], new: Mapping[str, int | None], names: Iterable[str]) -> bool:
    """Whether anything differs."""
    return any(old.get(name) != new.get(name) for name in names)
