"""What kubelet keeps of a node, taken off its zones in equal parts.

Amounts are thousandths of the resource's unit, of bytes as well: that is how Koordinator divides them, and how a
NodeResourceTopology shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.names import CPU, MEMORY

KEPT: Final = (CPU, MEMORY)
"""What kubelet's reservation is counted in."""


def kubelet_reservation(capacity: Mapping[str, int], allocatable: Mapping[str, int]) -> dict[str, int]:
    """What kubelet keeps: capacity less allocatable of cpu and memory, as far as both name them.

    Never below 0: an amplified node offers more than it has.
    """
    return {
        name: max(0, capacity[name] - allocatable[name]) for name in KEPT if name in capacity and name in allocatable
    }


def zone_part(amount_milli: int, zones: int) -> int:
    """The part of one of so many zones, rounded up; nothing where there are none."""
    return -(-amount_milli // zones) if zones > 0 else 0


def zone_allocatable(
    allocatable_milli: Mapping[str, int], reserved_milli: Mapping[str, int], zones: int
) -> dict[str, int]:
    """What of one zone pods may use: less its part of what kubelet keeps, never below 0."""
    return {
        name: max(0, amount - part) if (part := zone_part(reserved_milli.get(name, 0), zones)) > 0 else amount
        for name, amount in allocatable_milli.items()
    }
