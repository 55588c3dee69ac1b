"""METRICS, and the NodeMetrics of STATE: what nodes really use."""

from __future__ import annotations

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.metrics import NodeMetrics
from berth.contracts.state import (
    NodeMetric,
)
from berth.placement_solver.cluster_view.holdings import Holdings
from berth.placement_solver.core.constraints.load_aware_scheduling import LoadAwareScheduling


class LoadBuckets(Holdings):
    """Reports of load, by agent and by object."""

    def read_metrics(self, key: str, value: bytes, *, deleted: bool, stored_s: float) -> None:
        """Take in one message of METRICS; `stored_s` is when the bus stored it, in unix seconds."""
        kind, _, rest = key.partition(".")
        if kind == "node":
            node, message = subjects.unescape(rest), None if deleted else decode(value, NodeMetrics)
            if message is not None and message.node != node:
                raise InvalidMessage("node", "is not the name in the key")
            self._eased(self.loads.see_agent(node, message, stored_s))

    def read_node_metric(self, key: str, value: bytes, *, deleted: bool) -> None:
        """Take in one NodeMetric of STATE."""
        kind, _, rest = key.partition(".")
        if kind == "nodemetric":
            node, message = subjects.unescape(rest), None if deleted else decode(value, NodeMetric)
            if message is not None and message.name != node:
                raise InvalidMessage("name", "is not the name in the key")
            self._eased(self.loads.see_object(node, message))

    def reset_reports(self, *, agents: bool) -> None:
        """METRICS (`agents`), or the NodeMetrics, start over."""
        self._eased(self.loads.renew(self.loads.reports.reset(agents=agents)))

    @property
    def looks_at_load(self) -> bool:
        """Whether a profile asks what nodes really use."""
        return self.profiles.list_plugin(LoadAwareScheduling.name)

    def _eased(self, is_eased: bool) -> None:
        if is_eased and len(self.queue):
            self.happenings.eased()
