"""What a node reports of itself: the newest usage, windows of it, its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.resources.amounts import Amounts

REPORT_INTERVAL_S: Final = 60.0
AHEAD_MAX_S: Final = 30.0
"""How far the clock that a report was made by may be ahead."""
NOTHING: Final[Amounts] = {}


class Window(NamedTuple):
    """Usage over the last so many seconds, by aggregation type (`avg`, `p95`, ...)."""

    duration_s: float
    usage: Mapping[str, Amounts]


class PodReport(NamedTuple):
    """Usage of one pod, whether the node counts it among prod pods, and the priority class that the node says it is of
    (empty: none)."""

    usage: Amounts
    is_prod: bool = False
    priority_class: str = ""


class HostApplicationReport(NamedTuple):
    """Usage of processes outside of pods, and the priority and QoS classes that they are of."""

    usage: Amounts
    priority_class: str = ""
    name: str = ""
    qos: str = ""


class Metric(NamedTuple):
    """One report. `updated_s`: when it was made, None: never; `node_usage` None: it has no figures.

    `pods` has the keys by which the caller knows its pods. `prod_reclaimable` is what prod pods have asked for and are
    predicted not to need; None: nobody has predicted anything.
    """

    updated_s: float | None
    node_usage: Amounts | None = None
    report_interval_s: float = REPORT_INTERVAL_S
    system_usage: Amounts = NOTHING
    windows: tuple[Window, ...] = ()
    pods: Mapping[object, PodReport] = {}
    host_applications: tuple[HostApplicationReport, ...] = ()
    prod_reclaimable: Amounts | None = None


def is_expired(metric: Metric, now_s: float, limit_s: float) -> bool:
    """Whether a report is too old to say anything about now; one from the future would not grow old, so it counts as
    such."""
    updated_s = metric.updated_s
    return updated_s is None or now_s - updated_s >= limit_s or updated_s - now_s > AHEAD_MAX_S


def usage_of(metric: Metric, aggregation: str = "", duration_s: float = 0.0) -> Amounts | None:
    """The usage of the node by an aggregation type and window; None: that window is not reported.

    Without a type it is the newest usage. A duration of 0 means the longest window that says something of the type; if
    there is none, the newest usage.
    """
    newest = metric.node_usage if metric.node_usage is not None else NOTHING
    if not aggregation:
        return newest
    reported = [(each.duration_s, each.usage.get(aggregation)) for each in metric.windows]
    if duration_s == 0:
        longest = max(((length, usage) for length, usage in reported if usage), key=lambda each: each[0], default=None)
        return newest if longest is None else longest[1]
    return next((usage for length, usage in reported if length == duration_s and usage), None)
