"""From what comes in to what goes out: the node's entries in STATE and SLO, and each look at the machine.

A look is measured by the core, and the message goes to the node's own key, which nobody else writes. Nothing here
waits: the write is queued and only the newest is kept, so measuring goes on while the bus is away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from berth.bus.port import Entry, OwnedPort
from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodeSLO
from berth.contracts.subjects import named_key
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.measure import Measurement, Meter
from berth.node_qos_enforcer.core.node_facts import UNKNOWN, NodeFacts, facts_of
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategy import DEFAULT, Strategy, strategy_of
from berth.node_qos_enforcer.core.topology import Processor


def node_key(node: str) -> str:
    """Give the key of a node, the same in STATE, SLO and METRICS."""
    return named_key("node", node)


@dataclass
class NodeView:
    """What STATE says of one node; a sink that sees this key alone."""

    key: str
    facts: NodeFacts = UNKNOWN
    _is_shown: bool = False

    def reset(self) -> None:
        """Keep what is known while the bucket is read anew: best-effort pods stay off CPUs that are reserved."""
        self._is_shown = False

    def apply(self, entry: Entry) -> None:
        """Take the newest state of the node. One that cannot be read leaves the facts unknown, and says so."""
        if entry.key != self.key:
            return
        self._is_shown = not entry.deleted
        if entry.deleted:
            self.facts = UNKNOWN
            return
        try:
            self.facts = facts_of(decode(entry.value, state.Node))
        except InvalidMessage as error:
            self.facts = NodeFacts(problems=(Problem(field=f"state.{self.key}", message=str(error)[:200]),))

    def end(self, sequence: int) -> None:
        """The bucket does not hold the node: until it does the machine's own CPUs are its capacity."""
        if not self._is_shown:
            self.facts = UNKNOWN


@dataclass
class StrategyView:
    """The strategy of one node: None until one is told. A sink of SLO that sees this key alone.

    A bus that is away, a bucket that is read anew or was lost, a message that cannot be used: the last strategy stays.
    Only a deletion takes it away, and then the protocol's default holds: switched off.
    """

    key: str
    strategy: Strategy | None = None
    source: str = "none"
    message: NodeSLO | None = None
    problems: tuple[Problem, ...] = ()

    def restore(self, message: NodeSLO) -> None:
        """Take the strategy of a former life. Raises InvalidMessage."""
        self.strategy, self.source, self.message = strategy_of(message.cpu_suppress), "file", message

    def reset(self) -> None:
        """Keep what is known: the bucket is read anew."""

    def apply(self, entry: Entry) -> None:
        """Take the newest strategy of the node."""
        if entry.key != self.key:
            return
        if entry.deleted:
            self.strategy, self.source, self.message, self.problems = DEFAULT, "withdrawn", None, ()
            return
        try:
            message = decode(entry.value, NodeSLO)
            self.strategy = strategy_of(message.cpu_suppress)
            self.source, self.message, self.problems = "bus", message, ()
        except InvalidMessage as error:
            self.problems = (Problem(field=f"slo.{self.key}", message=str(error)[:200]),)

    def end(self, sequence: int) -> None:
        """Nothing waits for this view: what was known before counts until there is something newer."""


class KnownNode:
    """What is known of the node beside what a look shows. `refused` is what could not be written when enforcing."""

    def __init__(self, node: str) -> None:
        """Begin with nothing."""
        self.node = node
        self.key = node_key(node)
        self.view = NodeView(self.key)
        self.strategies = StrategyView(self.key)
        self.processors: Sequence[Processor] = ()
        self.refused: tuple[Problem, ...] = ()


@dataclass
class Reporter:
    """Measures looks and publishes them under the node's key. `enforces`: somebody acts on the plans."""

    known: KnownNode
    meter: Meter
    bucket: OwnedPort
    enforces: bool = False
    last: Measurement | None = None
    last_sample: NodeSample | None = None
    rounds: int = 0
    conflicts: int = 0

    def report(self, sample: NodeSample, *, now: float) -> Measurement:
        """Measure one look and queue its message; `now` is unix seconds."""
        known = self.known
        measurement = self.meter.measure(
            replace(sample, problems=sample.problems + known.strategies.problems + known.refused),
            now=now,
            strategy=known.strategies.strategy or DEFAULT,
            facts=known.view.facts,
            processors=known.processors,
            enforced=self.enforces and known.strategies.strategy is not None,
        )
        self.bucket.put(self.known.key, encode(measurement.metrics))
        self.last, self.last_sample = measurement, sample
        self.rounds += 1
        figures.observe(sample, measurement)
        return measurement

    def on_conflict(self, key: str) -> None:
        """Count that somebody else wrote the key; the next look writes it again, on top of what is there now."""
        if key == self.known.key:
            self.conflicts += 1
            figures.CONFLICTS.inc()

    def on_reset(self) -> None:
        """Publish the last look again: the bucket lost what it held."""
        if self.last is not None:
            self.bucket.put(self.known.key, encode(self.last.metrics))

    def facts(self) -> dict[str, str | int | float]:
        """Return what a person who asks for the status wants to see."""
        facts: dict[str, str | int | float] = {
            "node": self.known.node,
            "rounds": self.rounds,
            "conflicts": self.conflicts,
        }
        if self.last is None or self.last_sample is None:
            return facts
        metrics, sample = self.last.metrics, self.last_sample
        facts |= {
            "measured_at": metrics.measured_at,
            "interval_s": metrics.interval_s,
            "cpu_used_milli": metrics.node_usage.cpu_milli,
            "cpu_total_milli": metrics.cpu_total_milli,
            "memory_used_bytes": metrics.node_usage.memory_bytes,
            "pods": len(sample.pods),
            "cgroup_version": sample.cgroup_version,
            "cgroup_driver": sample.driver or "no kubelet here",
            "problems": len(metrics.problems),
            "strategy": self.known.strategies.source,
        }
        return facts | _suppress_facts(self.last)


def _suppress_facts(last: Measurement) -> dict[str, str | int | float]:
    """Return the target with its terms, what is in force and what follows, so that the sum can be followed by hand."""
    if last.target is None:
        return {"suppress": f"no target: {last.skipped}"}
    facts: dict[str, str | int | float] = {
        f"suppress_{name}": int(value) for name, value in last.target._asdict().items()
    }
    told = last.metrics.best_effort
    if told is not None:
        facts["best_effort_policy"] = told.policy or "off"
        facts["best_effort_cpus"] = told.cpus or "not known"
        facts["best_effort_quota_us"] = _quota(told.quota_us, "not known")
        facts["best_effort_next_cpus"] = told.next_cpus or "unchanged"
        facts["best_effort_next_quota_us"] = _quota(told.next_quota_us, "unchanged")
    return facts


def _quota(quota_us: int | None, unknown: str) -> int | str:
    return unknown if quota_us is None else "no limit" if quota_us == UNLIMITED else quota_us
