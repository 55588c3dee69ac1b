"""The figures of a race, and how they are reduced; nothing here touches the world."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec


class Course(msgspec.Struct, kw_only=True):
    """One course of one contender. CPU and calls are for each pod; peaks are since the process began."""

    name: str
    pods: int
    unbound: int = 0
    pods_per_s: float = 0.0
    created_per_s: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    contender_cpu_ms: float = 0.0
    """All processes of the contender together, its bus included."""
    contender_peak_mib: float = 0.0
    cpu_ms: dict[str, float] = {}
    peak_mib: dict[str, int] = {}
    calls: dict[str, float] = {}
    start_cpu_s: float = 0.0
    """Seconds of CPU of the processes that came back, until the first bind; not in the figures for each pod."""
    killed: list[str] = []
    spans: dict[str, list[float]] = {}
    """p50 and p99 in ms of each step from the creation to the bind, where that was asked for."""
    victims: int = 0
    """Pods that had to leave."""


class Race(msgspec.Struct, kw_only=True):
    """Everything of one run; `courses` by contender, each course once a round."""

    machine: str
    kubernetes: str
    nodes: int
    pods: int
    rate: float
    seconds: float
    order: list[str]
    shape: str = "plain"
    courses: dict[str, list[Course]] = {}


def latencies(seconds: Sequence[float]) -> tuple[float | None, float | None]:
    """p50 and p99 in milliseconds; None without values."""
    if not seconds:
        return None, None
    ordered = sorted(seconds)
    return tuple(1000 * ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.99))  # type: ignore[return-value]


def rate_between(times: Sequence[float]) -> float:
    """Binds a second from the first to the last; the first only starts the clock."""
    took_s = max(times, default=0.0) - min(times, default=0.0)
    return (len(times) - 1) / took_s if took_s > 0 else 0.0


def median(courses: Sequence[Course]) -> Course:
    """The round whose rate is in the middle (the lower one of two), whole: figures of one round belong together."""
    middle = statistics.median_low(course.pods_per_s for course in courses)
    return next(course for course in courses if course.pods_per_s == middle)
