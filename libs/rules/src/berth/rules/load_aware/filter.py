"""Whether a node is too busy for a pod. The words are Koordinator's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.resources.amounts import Amounts, add
from berth.rules.load_aware.existing import Existing, node_load, prod_load
from berth.rules.load_aware.metric import Metric, is_expired
from berth.rules.load_aware.thresholds import Thresholds
from berth.rules.scheduler_config.load_aware import LoadAwareArgs

EXPIRED: Final = "node(s) nodeMetric expired"
DAEMON_SET: Final = "DaemonSet"


class Incoming(NamedTuple):
    """Who waits: its estimate, whether it is a prod pod, and of which kinds its owners are."""

    estimate: Amounts
    is_prod: bool = False
    owner_kinds: Iterable[str] = ()


class Measured(NamedTuple):
    """One node: what it has, its thresholds, its report (None: it sends none) and the sums over its pods."""

    capacity: Mapping[str, int]
    thresholds: Thresholds
    metric: Metric | None
    existing: Existing


def too_busy(args: LoadAwareArgs, node: Measured, pod: Incoming, now_s: float) -> str:
    """Why the node does not take the pod; empty: it does."""
    if DAEMON_SET in pod.owner_kinds:
        return ""
    thresholds = node.thresholds
    by_prod = pod.is_prod and any(thresholds.prod.values())
    window = None if by_prod else thresholds.aggregated
    percent = thresholds.prod if by_prod else thresholds.usage if window is None else window.percent
    metric = node.metric
    if not any(percent.values()) or metric is None:
        return ""
    if args.filter_expired_node_metrics and is_expired(metric, now_s, args.node_metric_expiration_seconds):
        return "" if args.enable_schedule_when_node_metrics_expired else EXPIRED
    if metric.node_usage is None:
        return ""
    if by_prod:
        load = prod_load(metric, node.existing, with_system=args.prod_usage_include_sys)
    elif window is not None:
        load = node_load(metric, node.existing, window.aggregation, window.duration_s)
    else:
        load = node_load(metric, node.existing)
    name = _exceeded(add(load, pod.estimate), node.capacity, percent)
    if not name:
        return ""
    return exceeds(name, by_window=window is not None)


def exceeds(resource: str, *, by_window: bool) -> str:
    """The reason that names a resource."""
    return f"node(s) {resource} {'aggregated ' if by_window else ''}usage exceed threshold"


def _exceeded(load: Mapping[str, int], capacity: Mapping[str, int], percent: Mapping[str, int]) -> str:
    """The first resource, by name, of which more is used than may be; percentages are rounded half up."""
    for name in sorted(percent):
        whole = capacity.get(name, 0)
        if percent[name] > 0 and whole > 0 and (200 * load.get(name, 0) + whole) // (2 * whole) > percent[name]:
            return name
    return ""
