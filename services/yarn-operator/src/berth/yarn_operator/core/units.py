"""Between batch resources (thousandths of a core, bytes) and YARN's (whole vcores, megabytes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.resources.amounts import Amounts

MILLI: Final = 1000
MIB: Final = 1 << 20
"""What YARN's megabyte is."""


class Share(NamedTuple):
    """What YARN has, may have or uses of a node."""

    vcores: int = 0
    memory_mb: int = 0

    def within(self, other: Share) -> bool:
        """Whether neither part is larger than the other's."""
        return self.vcores <= other.vcores and self.memory_mb <= other.memory_mb


NONE: Final = Share()


def share_of(amounts: Mapping[str, int], *, megabyte: int = MIB, rounds_up: bool = False) -> Share:
    """Batch resources as YARN's.

    Rounded down, in units of 2^20 bytes, so that YARN never has more than there is. The copilot of Koordinator rounds
    up, in units of 10^6 bytes, and offers 4.9 % too much.
    """
    add_milli, add_bytes = (MILLI - 1, megabyte - 1) if rounds_up else (0, 0)
    return Share(
        (amounts.get(BATCH_CPU, 0) + add_milli) // MILLI, (amounts.get(BATCH_MEMORY, 0) + add_bytes) // megabyte
    )


def amounts_of(share: Share) -> Amounts:
    """YARN's resources as batch resources."""
    return {BATCH_CPU: share.vcores * MILLI, BATCH_MEMORY: share.memory_mb * MIB}


def larger(one: Share, other: Share) -> Share:
    """The larger of each part."""
    return Share(max(one.vcores, other.vcores), max(one.memory_mb, other.memory_mb))


def smaller(one: Share, other: Share) -> Share:
    """The smaller of each part."""
    return Share(min(one.vcores, other.vcores), min(one.memory_mb, other.memory_mb))
