"""Aggregations over the samples of a window, as reports of node usage define them.

Percentiles take an element of the ascending list, without interpolation; the index is a single-precision product,
because readers compare these figures with those of agents that compute it so.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
AGGREGATIONS = ("avg", "count", "last", *PERCENTILES)


class Sample(NamedTuple):
    """A value and when it was taken."""

    at: float
    value: float


def aggregate(samples: Sequence[Sample], aggregation: str) -> float:
    """Aggregate the samples of one window.

    Args:
        samples: in any order.
        aggregation: `avg`, `count`, `last` (the newest; of equally new ones the first), `p50`, `p90`, `p95` or `p99`.

    Raises:
        ValueError: without samples (no samples is not zero), or for another aggregation.
    """
    if not samples:
        raise ValueError("no samples in the window")
    if aggregation == "avg":
        return sum(sample.value for sample in samples) / len(samples)
    if aggregation == "count":
        return float(len(samples))
    if aggregation == "last":
        return max(samples, key=lambda sample: sample.at).value
    if aggregation not in PERCENTILES:
        raise ValueError(f"aggregation is not one of {', '.join(AGGREGATIONS)}: {aggregation[:60]!r}")
    index = int(_single(_single(len(samples)) * _single(PERCENTILES[aggregation]))) - 1
    return sorted(sample.value for sample in samples)[max(index, 0)]


def _single(value: float) -> float:
    """Round to single precision (the product of two singles is exact in a double, so one rounding gives theirs)."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
