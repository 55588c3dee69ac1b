"""From what comes in to what goes out: the node's entry in STATE, and each look at the machine.

A look is measured by the core, and the message goes to the node's own key, which nobody else writes. Nothing here
waits: the write is queued and only the newest is kept, so measuring goes on while the bus is away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.bus.port import Entry, OwnedPort
from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.errors import Broken
from berth.contracts.subjects import named_key
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.measure import Measurement, Meter, Strategy
from berth.node_qos_enforcer.core.node_facts import UNKNOWN, NodeFacts, facts_of
from berth.node_qos_enforcer.core.sample import NodeSample


def node_key(node: str) -> str:
    """Give the key of a node, in STATE as in METRICS."""
    return named_key("node", node)


@dataclass
class NodeView:
    """What STATE says of one node; a sink that sees this key alone."""

    key: str
    facts: NodeFacts = UNKNOWN

    def reset(self) -> None:
        """Forget; the bucket is read anew."""
        self.facts = UNKNOWN

    def apply(self, entry: Entry) -> None:
        """Take the newest state of the node. One that cannot be read leaves the facts unknown, and says so."""
        if entry.key != self.key:
            return
        if entry.deleted:
            self.facts = UNKNOWN
            return
        try:
            self.facts = facts_of(decode(entry.value, state.Node))
        except Broken as error:
            self.facts = NodeFacts(problems=(Problem(field=f"state.{self.key}", message=str(error)[:200]),))

    def end(self, sequence: int) -> None:
        """Nothing waits for this view to be complete: until then the machine's own CPUs are its capacity."""


@dataclass
class Reporter:
    """Measures looks and publishes them under the node's key."""

    node: str
    meter: Meter
    strategy: Strategy
    view: NodeView
    bucket: OwnedPort
    last: Measurement | None = None
    last_sample: NodeSample | None = None
    rounds: int = 0
    conflicts: int = 0
    _key: str = field(init=False)

    def __post_init__(self) -> None:
        """Work out the key once."""
        self._key = node_key(self.node)

    def report(self, sample: NodeSample, *, now: float) -> Measurement:
        """Measure one look and queue its message; `now` is unix seconds."""
        measurement = self.meter.measure(sample, now=now, strategy=self.strategy, facts=self.view.facts)
        self.bucket.put(self._key, encode(measurement.metrics))
        self.last, self.last_sample = measurement, sample
        self.rounds += 1
        figures.observe(sample, measurement)
        return measurement

    def on_conflict(self, key: str) -> None:
        """Count that somebody else wrote the key; the next look writes it again, on top of what is there now."""
        if key == self._key:
            self.conflicts += 1
            figures.CONFLICTS.inc()

    def on_reset(self) -> None:
        """Publish the last look again: the bucket lost what it held."""
        if self.last is not None:
            self.bucket.put(self._key, encode(self.last.metrics))

    def facts(self) -> dict[str, str | int | float]:
        """Return what a person who asks for the status wants to see."""
        facts: dict[str, str | int | float] = {"node": self.node, "rounds": self.rounds, "conflicts": self.conflicts}
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
        }
        return facts | _suppress_facts(self.last, sample)


def _suppress_facts(last: Measurement, sample: NodeSample) -> dict[str, str | int | float]:
    """Return the target with its terms, and what is in force, so that the sum can be followed by hand."""
    if last.target is None:
        return {"suppress": f"no target: {last.skipped}"}
    facts: dict[str, str | int | float] = {
        f"suppress_{name}": int(value) for name, value in last.target._asdict().items()
    }
    if sample.best_effort_bandwidth is not None:
        facts["best_effort_quota_us"] = sample.best_effort_bandwidth.quota_us
        facts["best_effort_next_quota_us"] = "unchanged" if last.next_quota_us is None else last.next_quota_us
    if sample.best_effort_cpus is not None:
        facts["best_effort_cpus"] = len(sample.best_effort_cpus)
    return facts
