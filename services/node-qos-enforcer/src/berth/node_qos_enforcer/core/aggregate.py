"""What a series of measurements comes to: its average, its newest, its percentiles.

Percentiles are Koordinator's: the element at `int(n * p) - 1` of the ascending list, at least the first, without
interpolation, and with the product in single precision.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

Aggregation: TypeAlias = Literal["avg", "last", "count", "p50", "p90", "p95", "p99"]

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class Sample(NamedTuple):
    """A value, and when it was measured; times are only compared with each other."""

    at: float
    value: float


def aggregated(samples: Sequence[Sample], aggregation: Aggregation) -> float | None:
    """What the samples come to; None without samples: nobody knows, which is not 0."""
    if not samples:
        return None
    if aggregation == "count":
        return float(len(samples))
    if aggregation == "last":
        return max(samples, key=lambda sample: sample.at).value  # of equal times the first
    if aggregation == "avg":
        return sum(sample.value for sample in samples) / len(samples)
    return percentile([sample.value for sample in samples], SHARES[aggregation])


def percentile(values: Sequence[float], share: float) -> float:
    """The percentile of at least one value."""
    ordered = sorted(values)
    place = int(_single(_single(share) * len(ordered)))
    return ordered[max(place - 1, 0)]


def _single(number: float) -> float:
    """Rounded as a float of 32 bits."""
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded
