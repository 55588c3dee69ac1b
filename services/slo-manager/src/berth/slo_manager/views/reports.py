"""What nodes report that they use: METRICS of Berth's own agents, NodeMetric objects of koordlets.

Reports are as old as it is that they arrived on the bus: the clock of a node may be wrong. A bucket that begins anew
takes nothing back, since what is not said again grows old by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.metrics import NodeMetrics
from berth.contracts.subjects import parts
from berth.rules.load_aware.agent_report import read_agent_report
from berth.rules.load_aware.metric import Metric
from berth.rules.load_aware.node_metric import read_node_metric
from berth.rules.load_aware.reports import ABANDONED_S

METRIC_KEYS: Final = "node.>"
OBJECT_KEYS: Final = "nodemetric.>"
_NEVER: Final = float("inf")


class Reports:
    """The newest of each node that can be used, by whose it is."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.agents = AgentReports(mark, mark_all)
        self.objects = ObjectReports(mark, mark_all)

    @property
    def is_complete(self) -> bool:
        """Whether a node that is in neither does not report."""
        return self.agents.is_at_end and self.objects.is_at_end

    @property
    def unreadable(self) -> int:
        """How many could not be read since the start."""
        return self.agents.unreadable + self.objects.unreadable

    def of(self, node: str) -> tuple[Metric | None, bool]:
        """The report that counts, and whether it is that of Berth's agent. A koordlet's counts where there is none, or
        it has stopped long before."""
        agents, objects = self.agents.metrics.get(node), self.objects.metrics.get(node)
        if objects is None or agents is None:
            return (agents, True) if objects is None else (objects, False)
        is_abandoned = (objects.updated_s or 0.0) - (agents.updated_s or 0.0) > ABANDONED_S
        return (objects, False) if is_abandoned else (agents, True)


class _View(ABC):
    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.metrics: dict[str, Metric] = {}
        self.unreadable = 0
        self.is_at_end = False
        self._mark = mark
        self._mark_all = mark_all

    def reset(self) -> None:
        """The bucket begins anew."""
        self.is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One report. One that cannot be read leaves the one before, which grows old."""
        try:
            _, name = parts(entry.key)
            metric = None if entry.deleted else self._read(name, entry)
        except (InvalidMessage, ValueError):
            self.unreadable += 1
            return
        if entry.deleted:
            self.metrics.pop(name, None)
        elif metric is None:
            return
        else:
            self.metrics[name] = metric
        self._mark(name)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self.is_at_end:
            self.is_at_end = True
            self._mark_all()

    @abstractmethod
    def _read(self, name: str, entry: Entry) -> Metric | None:
        """The report of a node; None: no news. Raises InvalidMessage."""


class AgentReports(_View):
    """Those of Berth's agents. An agent that has just started has measured nothing yet."""

    def _read(self, name: str, entry: Entry) -> Metric | None:
        message = decode(entry.value, NodeMetrics)
        if message.node != name:
            raise InvalidMessage("node", "is not the name in the key")
        return read_agent_report(message, entry.stored_s)[0]


class ObjectReports(_View):
    """Those of koordlets. An object that is written without a new report is no news."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        super().__init__(mark, mark_all)
        self.made: dict[str, float] = {}
        """The time that each object shows."""

    def _read(self, name: str, entry: Entry) -> Metric | None:
        metric, _ = read_node_metric(decode(entry.value, state.NodeMetric).status, _NEVER)
        if metric is None or metric.updated_s is None:
            return None
        known = self.metrics.get(name)
        if known is not None and self.made.get(name) == metric.updated_s:
            return metric._replace(updated_s=known.updated_s)
        self.made[name] = metric.updated_s
        return metric._replace(updated_s=entry.stored_s)
