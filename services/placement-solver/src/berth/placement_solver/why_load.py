"""Answers to people about what a node really uses, where a profile looks at that."""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts.base import Problem
from berth.contracts.state import Node
from berth.placement_solver.cluster_view import ClusterView
from berth.resources.amounts import Amounts, format_amount
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.thresholds import thresholds_of
from berth.rules.scheduler_config import LoadAwareArgs


def load_of(cluster: ClusterView, node: Node) -> str:
    """The report that counts, and how old it is by the clock of the bus; empty where nobody looks at it."""
    if not cluster.looks_at_load:
        return ""
    report = cluster.loads.reports.of(node.name)
    if report is None:
        return "no report"
    metric, capacity = report.metric, capacity_of(node.allocatable, node.annotations)[0]
    used = "nothing that could be read" if metric.node_usage is None else _used(metric.node_usage, capacity)
    age = "of no known time" if metric.updated_s is None else f"{cluster.loads.now_s - metric.updated_s:.0f} s old"
    return f"{used} used, by {'METRICS' if report.is_agents else 'its NodeMetric'}, {age}"


def load_problems(cluster: ClusterView, node: Node) -> Iterator[Problem]:
    """What of its reports, and of what its annotations say about load, cannot be used."""
    if cluster.looks_at_load:
        yield from cluster.loads.reports.problems(node.name)
        found = (thresholds_of(LoadAwareArgs(), node.annotations)[1], capacity_of({}, node.annotations)[1])
        yield from (problem for problem in found if problem is not None)


def _used(usage: Amounts, capacity: Amounts) -> str:
    parts = []
    for name, amount in sorted(usage.items()):
        whole = capacity.get(name, 0)
        percent = f" ({100 * amount / whole:.0f} %)" if whole > 0 else ""
        parts.append(f"{name} {format_amount(name, amount)}{percent}")
    return ", ".join(parts) or "nothing"
