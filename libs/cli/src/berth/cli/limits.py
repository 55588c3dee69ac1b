"""Limits that several commands share."""

from __future__ import annotations

from typing import Final

NODES_MIN: Final = 4
"""Fewer nodes have no place for the demonstration's gang."""
NODES_MAX: Final = 5000
"""Of a simulated cluster on one machine."""
