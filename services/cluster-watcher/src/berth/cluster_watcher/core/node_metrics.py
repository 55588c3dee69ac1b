"""slo.koordinator.sh NodeMetric: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.cluster_watcher.core.metadata import identity_of
from berth.contracts import state
from berth.contracts.kube import NodeMetric


def node_metric_of(item: NodeMetric, version: int) -> state.NodeMetric:
    """The status as read."""
    return state.NodeMetric(name=identity_of(item.metadata, []).name, version=version, status=item.status or {})
