"""What nodes report that they use: METRICS of Berth's own agents, NodeMetric objects of another one's.

Berth's own goes first. Only where it stopped long before the other's newest report does that one count: its agent was
taken away, and the last thing that it said is still there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.metrics import NodeMetrics
from berth.contracts.state import NodeMetric
from berth.rules.load_aware.agent_report import read_agent_report
from berth.rules.load_aware.metric import REPORT_INTERVAL_S, Metric
from berth.rules.load_aware.node_metric import read_node_metric

ABANDONED_S: Final = 180.0
"""What Koordinator takes for an old report unless a profile says otherwise."""


class Report(NamedTuple):
    """A report; `is_agents`: of Berth's own agent, which calls pods by uid."""

    metric: Metric
    is_agents: bool

    def key(self, name: tuple[str, str], uid: str) -> object:
        """What the report calls a pod by."""
        return uid if self.is_agents else name


class LoadReports:
    """The newest of each node that can be used."""

    def __init__(self) -> None:
        self._agents: dict[str, Metric] = {}
        self._objects: dict[str, Metric] = {}
        self._problems: dict[tuple[str, bool], tuple[Problem, ...]] = {}
        self.refused = 0
        """How many had something in them that could not be used."""

    def see_agent(self, node: str, message: NodeMetrics | None, stored_s: float) -> None:
        """Take in a message of METRICS, None: it is gone. One that does not say what the node uses leaves the one
        before, which grows old."""
        if message is None:
            self._agents.pop(node, None)
            self._problems.pop((node, True), None)
            return
        metric, problems = read_agent_report(message, stored_s)
        self._note(node, True, problems)
        if metric is not None:
            self._agents[node] = metric

    def see_object(self, node: str, message: NodeMetric | None, now_s: float) -> None:
        """Take in a NodeMetric, None: it is gone."""
        if message is None:
            self._objects.pop(node, None)
            self._problems.pop((node, False), None)
            return
        metric, problems = read_node_metric(message.status, now_s, message.report_interval_s or REPORT_INTERVAL_S)
        self._note(node, False, problems)
        if metric is not None:
            self._objects[node] = metric
        else:
            self._objects.pop(node, None)

    def reset(self, *, agents: bool) -> list[str]:
        """METRICS (`agents`), or the objects, start over: the nodes of which nothing is known until they are read."""
        known = self._agents if agents else self._objects
        nodes = list(known)
        known.clear()
        self._problems = {key: each for key, each in self._problems.items() if key[1] != agents}
        return nodes

    def of(self, node: str) -> Report | None:
        """The report that counts; None: the node sends none."""
        agents, objects = self._agents.get(node), self._objects.get(node)
        if agents is None:
            return None if objects is None else Report(objects, is_agents=False)
        is_newer = objects is not None and (objects.updated_s or 0.0) - (agents.updated_s or 0.0) > ABANDONED_S
        return Report(objects, is_agents=False) if objects is not None and is_newer else Report(agents, is_agents=True)

    def problems(self, node: str) -> list[Problem]:
        """What is wrong with the newest reports of a node."""
        return [problem for is_agents in (True, False) for problem in self._problems.get((node, is_agents), ())]

    def _note(self, node: str, is_agents: bool, problems: tuple[Problem, ...]) -> None:
        self.refused += bool(problems)
        if problems:
            self._problems[node, is_agents] = problems
        else:
            self._problems.pop((node, is_agents), None)
