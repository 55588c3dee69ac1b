"""Latencies of the service that `pause serve` is: counts by steps of 20 us, a line for each second."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

STEP_US = 20


def counted(path: Path, begin: float, end: float) -> Counter[int]:
    """Requests by step in the seconds that lie between two moments, in unix seconds."""
    found: Counter[int] = Counter()
    for line in path.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        second = json.loads(line)
        if begin <= second["at"] - 1 and second["at"] <= end:
            found.update({int(step): count for step, count in second["counts"].items()})
    return found


def percentile_us(counts: Counter[int], percent: float) -> int:
    """The latency that so many percent of requests stay below. Raises ValueError when there was none."""
    total, seen = counts.total(), 0
    for step in sorted(counts):
        seen += counts[step]
        if seen >= total * percent / 100:
            return (step + 1) * STEP_US
    raise ValueError("no request was answered")


def median(values: Iterable[float]) -> float:
    """Of an odd number of values."""
    found = sorted(values)
    return found[len(found) // 2]
