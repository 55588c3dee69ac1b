"""slo.koordinator.sh NodeMetric: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import NodeMetric
from berth.rules.reading.metadata import identity_of

INTERVAL_MAX_S: Final = 24 * 3600


def node_metric_of(item: NodeMetric, version: int) -> state.NodeMetric:
    """The status as read."""
    return state.NodeMetric(
        name=identity_of(item.metadata, []).name,
        version=version,
        report_interval_s=_report_interval_s(item),
        status=item.status or {},
    )


def _report_interval_s(item: NodeMetric) -> int:
    """How often its policy wants a report; 0 where it says nothing that can be."""
    policy = (item.spec or {}).get("metricCollectPolicy")
    given = policy.get("reportIntervalSeconds") if isinstance(policy, dict) else None
    if not isinstance(given, int) or isinstance(given, bool):
        return 0
    return given if 0 < given <= INTERVAL_MAX_S else 0
