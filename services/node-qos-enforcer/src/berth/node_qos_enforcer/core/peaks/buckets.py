"""How values are sorted into the buckets of a histogram."""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Protocol

GROWTH: Final = 1.05
MIB: Final = 1 << 20


class Buckets(Protocol):
    """Buckets from 0 on; a value beyond the last one is in the last one."""

    @property
    def number(self) -> int:
        """How many there are."""
        ...

    def of(self, value: float) -> int:
        """Which one a value is in."""
        ...

    def start(self, bucket: int) -> float:
        """The smallest value that is in it."""
        ...


class Linear(NamedTuple):
    """All of one size."""

    max_value: float
    size: float

    @property
    def number(self) -> int:
        """See `Buckets`."""
        return math.ceil(self.max_value / self.size) + 1

    def of(self, value: float) -> int:
        """See `Buckets`."""
        return 0 if value < self.size else min(int(value / self.size), self.number - 1)

    def start(self, bucket: int) -> float:
        """See `Buckets`."""
        return bucket * self.size


class Exponential(NamedTuple):
    """Each larger than the one before by the same ratio."""

    max_value: float
    first: float
    ratio: float = GROWTH

    @property
    def number(self) -> int:
        """See `Buckets`."""
        return math.ceil(self._log(self.max_value)) + 1

    def of(self, value: float) -> int:
        """See `Buckets`."""
        return 0 if value < self.first else min(int(self._log(value)), self.number - 1)

    def start(self, bucket: int) -> float:
        """See `Buckets`."""
        return self.first * (self.ratio**bucket - 1) / (self.ratio - 1) if bucket else 0.0

    def _log(self, value: float) -> float:
        return math.log(value * (self.ratio - 1) / self.first + 1) / math.log(self.ratio)


CPU_CORES: Final = Exponential(1024.0, 0.025)
MEMORY_BYTES: Final = Exponential(float(2 << 40), 5.0 * MIB)
