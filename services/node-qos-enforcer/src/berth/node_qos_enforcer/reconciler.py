"""From each look at the machine, and what the bus shows of the node, to the node's message in METRICS.

A look is measured by the core, and a message that is news goes to the node's own key, which nobody else writes. Nothing
here waits: the write is queued and only the newest is kept, so measuring goes on while the bus is away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from berth.bus.port import OwnedPort
from berth.contracts.codec import encode
from berth.contracts.metrics import NodeMetrics
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.measure import Measurement, Meter
from berth.node_qos_enforcer.core.pacing import is_news
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategy import DEFAULT
from berth.node_qos_enforcer.core.windows import UsageSeries
from berth.node_qos_enforcer.views import KnownNode

FIRST: Final = 3
"""So many looks are told at first: the second and third have a use, and readers lend on the second that they see."""


@dataclass
class Reconciler:
    """Measures looks and publishes them under the node's key. `enforces`: somebody acts on the plans. `every_s` is the
    longest time between two messages."""

    known: KnownNode
    meter: Meter
    bucket: OwnedPort
    enforces: bool = False
    every_s: float = 0.0
    series: UsageSeries = field(default_factory=UsageSeries)
    last: Measurement | None = None
    told: NodeMetrics | None = None
    told_at_s: float = 0.0
    last_sample: NodeSample | None = None
    rounds: int = 0
    conflicts: int = 0

    def report(self, sample: NodeSample, *, now: float, now_s: float) -> Measurement:
        """Measure one look and queue its message, if it is news; `now` is unix seconds, `now_s` monotonic."""
        known = self.known
        measurement = self.meter.measure(
            replace(sample, problems=sample.problems + known.problems),
            now=now,
            strategy=known.strategies.strategy or DEFAULT,
            facts=known.facts,
            processors=known.processors,
            enforced=self.enforces and known.strategies.strategy is not None,
        )
        metrics = measurement.metrics
        if sample.cpu is not None and sample.memory is not None:
            self.series.add(sample.cpu.at, metrics.interval_s, metrics.node_usage)
        metrics = msgspec.structs.replace(
            metrics,
            windows=self.series.windows(),
            runtime_plugin=known.plugin(),
            strategies=dict(known.standing),
            prod_reclaimable=known.prod_reclaimable,
        )
        measurement = replace(measurement, metrics=metrics)
        if self.rounds < FIRST or is_news(self.told, metrics, since_s=now_s - self.told_at_s, interval_s=self.every_s):
            self.bucket.put(self.known.key, encode(metrics))
            self.told, self.told_at_s = metrics, now_s
        self.last, self.last_sample = measurement, sample
        self.rounds += 1
        figures.observe(sample, measurement)
        return measurement

    def on_conflict(self, key: str) -> None:
        """Count that somebody else wrote the key; the next look writes it again, on top of what is there now."""
        if key == self.known.key:
            self.conflicts += 1
            self.told = None
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
        if (plugin := metrics.runtime_plugin) is not None:
            facts |= {
                "container_runtime": plugin.runtime if plugin.connected else "not connected",
                "containers": plugin.containers,
                "gpu_isolation": plugin.isolation or f"none: {plugin.reason}",
            }
        facts |= {f"strategy_{name}": words for name, words in self.known.standing.items()}
        return facts | _suppress_facts(self.last)


def _suppress_facts(last: Measurement) -> dict[str, str | int | float]:
    """Return the target with its terms, what is in force and what follows, so that the sum can be followed by hand."""
    if last.target is None:
        return {"suppress": f"no target: {last.skipped}"}
    facts: dict[str, str | int | float] = {
        f"suppress_{name}": int(value) for name, value in last.target._asdict().items()
    }
    held = last.metrics.best_effort
    if held is not None:
        facts["best_effort_policy"] = held.policy or "off"
        facts["best_effort_cpus"] = held.cpus or "not known"
        facts["best_effort_quota_us"] = _quota(held.quota_us, "not known")
        facts["best_effort_next_cpus"] = held.next_cpus or "unchanged"
        facts["best_effort_next_quota_us"] = _quota(held.next_quota_us, "unchanged")
    return facts


def _quota(quota_us: int | None, unknown: str) -> int | str:
    return unknown if quota_us is None else "no limit" if quota_us == UNLIMITED else quota_us
