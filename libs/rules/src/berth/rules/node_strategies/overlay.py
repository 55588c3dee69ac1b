"""Strategies over each other, as JSON: a field that is there replaces, one that is absent or null keeps, objects merge,
lists are replaced whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def overlay(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one JSON object over another."""
    merged = dict(base)
    for name, value in over.items():
        if value is None:
            continue
        below = merged.get(name)
        merged[name] = overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
