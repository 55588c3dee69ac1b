"""NodeMetric objects that show what Berth's agents report, for readers of the protocol.

The bus is where reports are; the objects follow a minute behind, with what other objects leave of ten writes a second.
What a koordlet writes is its own: cluster-writer leaves objects alone that are not Berth's.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from berth.resources.amounts import Amounts, format_amounts
from berth.rules.load_aware.metric import Metric
from berth.rules.node_strategies.colocation import Colocation
from berth.rules.times import text_of
from berth.slo_manager.core.offers.facts import Holder
from berth.slo_manager.core.turns import Budget

INTERVAL_S: Final = 60.0
EARLY_S: Final = 5.0
"""Agents report once in the interval as well: a report that arrives this much before its time is the next one."""


class Mirror:
    """Whose object is written next: that which is furthest behind."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._asked: dict[str, float] = {}
        self._turn: set[str] = set()

    def turns(self, arrived: Mapping[str, float], made: Mapping[str, float], now: float) -> list[str]:
        """Whose turn it is.

        Args:
            arrived: when the newest report of each node arrived, in unix seconds.
            made: the time that each object shows, which is that of the report it shows.
            now: monotonic seconds.
        """
        self._asked = {name: asked for name, asked in self._asked.items() if now - asked < INTERVAL_S}
        behind = {name: at_s - made.get(name, 0.0) for name, at_s in arrived.items() if name not in self._asked}
        late = [name for name, behind_s in behind.items() if behind_s >= INTERVAL_S - EARLY_S]
        chosen = heapq.nsmallest(self._budget.left(now), late, key=lambda name: (-behind[name], name))
        self._budget.spend(len(chosen))
        self._turn.update(chosen)
        return chosen

    def takes(self, name: str, now: float) -> bool:
        """Whether the node's object is to be written now."""
        if name not in self._turn:
            return False
        self._turn.discard(name)
        self._asked[name] = now
        return True


def spec_of(strategy: Colocation) -> dict[str, Any]:
    """How often reports are made, and over which times."""
    return {
        "metricCollectPolicy": {
            "aggregateDurationSeconds": strategy.metric_aggregate_duration_seconds,
            "reportIntervalSeconds": strategy.metric_report_interval_seconds,
            "nodeMemoryCollectPolicy": strategy.metric_memory_collect_policy,
        }
    }


def status_of(metric: Metric, holders: Collection[Holder]) -> dict[str, Any]:
    """What the object shows: of pods those that are on the node, by their names."""
    node: dict[str, Any] = {"systemUsage": _resources(metric.system_usage)}
    if metric.node_usage is not None:
        node["nodeUsage"] = _resources(metric.node_usage)
    if metric.windows:
        node["aggregatedNodeUsages"] = [
            {
                "duration": f"{int(each.duration_s)}s",
                "usage": {name: _resources(usage) for name, usage in each.usage.items()},
            }
            for each in metric.windows
        ]
    status = {
        "updateTime": text_of(metric.updated_s or 0.0),
        "nodeMetric": node,
        "podsMetric": list(_pods(metric, holders)),
    }
    if metric.host_applications:
        status["hostApplicationMetric"] = [
            {"name": each.name, "usage": _resources(each.usage), "priority": each.priority_class, "qos": each.qos}
            for each in metric.host_applications
        ]
    if metric.prod_reclaimable is not None:
        status["prodReclaimableMetric"] = {"resource": _resources(metric.prod_reclaimable)}
    return status


def _pods(metric: Metric, holders: Iterable[Holder]) -> Iterable[dict[str, Any]]:
    for holder in sorted(holders):
        report = metric.pods.get(holder.uid)
        if report is not None:
            namespace, name = holder.name
            usage = _resources(report.usage)
            yield {"namespace": namespace, "name": name, "podUsage": usage, "priority": holder.priority_class}


def _resources(amounts: Amounts) -> dict[str, Any]:
    return {"resources": format_amounts(amounts)}
