"""What the node used over the last 5, 10 and 30 minutes: averages and percentiles of a series that is kept for so long.

A window is left out until half of it was measured, as in Koordinator's NodeMetric, and says how much of it was. The
series begins anew when its clock went back; a pause between two looks, or a restart, is time that was not measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from berth.contracts.metrics import Usage, UsageWindow
from berth.node_qos_enforcer.core.aggregate import Aggregation, Sample, aggregated

DURATIONS_S: Final = (300, 600, 1800)
STEP_S: Final = 1.0
"""Looks that are closer than this are one measurement, so that the series stays short."""
POINTS_MAX: Final = 2_000
SHARE_MIN: Final = 0.5
PARTS: Final[tuple[Aggregation, ...]] = ("avg", "p50", "p90", "p95", "p99")
_SLACK_S: Final = 1e-6


class Point(NamedTuple):
    """What was used in the `length_s` seconds before `at` (monotonic seconds)."""

    at: float
    length_s: float
    cpu_milli: float
    memory_bytes: float


class UsageSeries:
    """The measurements of the longest window, oldest first."""

    def __init__(self) -> None:
        """Nothing was measured."""
        self._points: deque[Point] = deque(maxlen=POINTS_MAX)

    def __len__(self) -> int:
        """How many measurements are kept."""
        return len(self._points)

    def add(self, at: float, length_s: float, usage: Usage) -> None:
        """Take what was used in the `length_s` seconds before `at`, by a clock that does not go back."""
        if length_s <= 0:
            return
        points = self._points
        if points and at <= points[-1].at:
            points.clear()
        point = Point(at, length_s, usage.cpu_milli, usage.memory_bytes)
        if points and _are_one(points[-1], point):
            point = _together(points.pop(), point)
        points.append(point)
        while points[0].at <= at - DURATIONS_S[-1]:
            points.popleft()

    def windows(self) -> list[UsageWindow]:
        """The windows that end with the newest measurement, shortest first."""
        found = (self._window(duration_s) for duration_s in DURATIONS_S)
        return [each for each in found if each is not None]

    def _window(self, duration_s: int) -> UsageWindow | None:
        begins = self._points[-1].at - duration_s if self._points else 0.0
        points = [each for each in self._points if each.at > begins]
        measured_s = sum(min(each.length_s, each.at - begins) for each in points)
        if measured_s < duration_s * SHARE_MIN:
            return None
        cpu = [Sample(each.at, each.cpu_milli) for each in points]
        memory = [Sample(each.at, each.memory_bytes) for each in points]
        found = {name: Usage(cpu_milli=_whole(cpu, name), memory_bytes=_whole(memory, name)) for name in PARTS}
        return UsageWindow(duration_s=duration_s, measured_s=round(measured_s), **found)


def _are_one(before: Point, point: Point) -> bool:
    """Whether the second follows the first at once, which is shorter than a step."""
    return before.length_s < STEP_S - _SLACK_S and point.at - point.length_s <= before.at + _SLACK_S


def _together(before: Point, point: Point) -> Point:
    length_s = before.length_s + point.length_s

    def mean(one: float, other: float) -> float:
        return round((one * before.length_s + other * point.length_s) / length_s, 3)

    cpu_milli = mean(before.cpu_milli, point.cpu_milli)
    return Point(point.at, length_s, cpu_milli, mean(before.memory_bytes, point.memory_bytes))


def _whole(samples: Sequence[Sample], part: Aggregation) -> int:
    return int(aggregated(samples, part) or 0.0)
