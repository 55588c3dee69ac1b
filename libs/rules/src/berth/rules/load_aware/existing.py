"""What the pods of a node use: what is measured, and of pods that are not measured yet what is expected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from berth.resources.amounts import Amounts, add, add_into
from berth.rules.load_aware.metric import Metric, usage_of


class Assigned(NamedTuple):
    """A pod that is bound to the node, or taken for bound.

    `key` is what the report calls it by. Seconds are of the report's clock; `until_s`: see `estimate.estimated_until`.
    """

    key: object
    estimate: Amounts
    scheduled_s: float
    until_s: float | None = None
    is_prod: bool = False


class Existing(NamedTuple):
    """Sums over the pods of a node.

    `estimated`: all estimates. `unmeasured`: by how much the estimates of pods that are still estimated exceed what is
    measured of them; `unmeasured_prod`: the same of prod pods, with all of those that the node does not take for prod.
    `prod`: what is measured of prod pods.
    """

    estimated: Amounts
    unmeasured: Amounts
    prod: Amounts
    unmeasured_prod: Amounts


def existing_of(metric: Metric, pods: Iterable[Assigned]) -> Existing:
    """The sums for a report. Terminated pods are none of `pods`."""
    sums = Existing({}, {}, {}, {})
    for pod in pods:
        report = metric.pods.get(pod.key)
        usage = report.usage if report is not None else {}
        add_into(sums.estimated, pod.estimate)
        excess = {name: max(0, amount - usage.get(name, 0)) for name, amount in pod.estimate.items()}
        is_estimated = not usage or _is_estimated(metric, pod)
        if is_estimated:
            add_into(sums.unmeasured, excess)
        if not pod.is_prod:
            continue
        if usage and report is not None and not report.is_prod:
            add_into(sums.unmeasured_prod, pod.estimate)
            continue
        add_into(sums.prod, usage)
        if is_estimated:
            add_into(sums.unmeasured_prod, excess)
    return sums


def node_load(metric: Metric, existing: Existing, aggregation: str = "", duration_s: float = 0.0) -> Amounts:
    """The load of a node. Where the window is not reported it is what all pods are estimated at."""
    base = usage_of(metric, aggregation, duration_s)
    return dict(existing.estimated) if base is None else add(base, existing.unmeasured)


def prod_load(metric: Metric, existing: Existing, *, with_system: bool = False) -> Amounts:
    """The load by prod pods alone, or with what the system uses."""
    load = add(existing.prod, existing.unmeasured_prod)
    return add(load, metric.system_usage) if with_system else load


def _is_estimated(metric: Metric, pod: Assigned) -> bool:
    """Whether a report is too early to say what the pod uses."""
    if metric.updated_s is None:
        return True
    is_fresh = metric.updated_s - metric.report_interval_s < pod.scheduled_s
    return is_fresh or (pod.until_s is not None and pod.until_s > metric.updated_s)
