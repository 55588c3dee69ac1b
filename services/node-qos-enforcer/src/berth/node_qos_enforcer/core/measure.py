"""From one look after another to what the node publishes: use of node, classes and pods, and the best-effort target.

Usage needs two looks, so the first message has none (`interval_s` is 0, and a problem says so). Something whose use
is not known is left out, never reported as zero: a pod that has just started, one whose group was made anew, one that
could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.contracts.base import Problem
from berth.contracts.metrics import GroupPressure, HostApplicationUsage, NodeMetrics, PodUsage, Pressure, Usage
from berth.node_qos_enforcer.core.best_effort import capacity_milli, message_of, target_of
from berth.node_qos_enforcer.core.cgroup_paths import KubeQos
from berth.node_qos_enforcer.core.laws.cold_memory import node_usage
from berth.node_qos_enforcer.core.node_facts import UNKNOWN, NodeFacts
from berth.node_qos_enforcer.core.plan import Plan, plan
from berth.node_qos_enforcer.core.pressure import StallPair
from berth.node_qos_enforcer.core.sample import GroupSample, NodeSample
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.core.suppress import Target
from berth.node_qos_enforcer.core.topology import MAX_PROCESSORS, Processor
from berth.node_qos_enforcer.core.usage import Counters, Reading

NODE = "node"
MAX_PROBLEMS = 50
SUPPRESS_UNKNOWN = -1
PRESSURE_NAMES: dict[KubeQos, str] = {"Guaranteed": "pods", "Burstable": "burstable", "BestEffort": "besteffort"}
"""What the message calls the groups of the QoS classes where pressure is meant, which nobody subtracts."""
SLACK = 2.0
"""A usage of more than so many times the machine's CPUs is not believed."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One round's answer: the message, the target with its terms (or why there is none), and what follows from it."""

    metrics: NodeMetrics
    target: Target | None
    skipped: str
    plan: Plan
    node_cores: float | None = None
    pod_cores: Mapping[str, float] = field(default_factory=dict)
    application_cores: Mapping[str, float] = field(default_factory=dict)


class Cores(NamedTuple):
    """The use of CPU between two looks; what is not known is not there. `interval_s` is the time between, 0: no use."""

    interval_s: float
    node: float | None
    pods: Mapping[str, float]
    classes: Mapping[KubeQos, float]
    applications: Mapping[str, float]


class Meter:
    """Turns samples into measurements. Keeps the last reading of every counter, nothing else."""

    def __init__(self, node: str, *, max_gap_s: float) -> None:
        """Take the node's name, and the longest pause between two looks that still gives a usage."""
        self._node = node
        self._counters = Counters(max_gap_s=max_gap_s, max_cores=MAX_PROCESSORS * SLACK)
        self._node_at: float | None = None

    def measure(
        self,
        sample: NodeSample,
        *,
        now: float,
        strategy: Strategy,
        facts: NodeFacts = UNKNOWN,
        processors: Sequence[Processor] = (),
        enforced: bool = False,
    ) -> Measurement:
        """Measure one look.

        Args:
            sample: what was read.
            now: unix seconds of this node, for people.
            strategy: the threshold that best-effort pods are held to.
            facts: what the cluster says about the node; without it the machine's own CPUs count as its capacity.
            processors: the layout of the CPUs that are online, for the choice of a cpuset.
            enforced: what the message says about whether anybody acts on the plan.
        """
        used = self.cores(sample)
        interval_s, node_cores, pod_cores, application_cores = used.interval_s, used.node, used.pods, used.applications
        capacity = capacity_milli(sample, facts)
        target, skipped = target_of(sample, node_cores, pod_cores, strategy, facts, application_cores)
        next_step = plan(
            strategy,
            target_milli=None if target is None else target.target_milli,
            skipped=skipped,
            held=sample.best_effort,
            capacity_milli=capacity,
            facts=facts,
            processors=processors,
        )
        problems = list(sample.problems + facts.problems)
        if interval_s == 0.0:
            problems.insert(
                0, Problem(field="interval_s", message="no CPU usage in this round: it takes two looks at the node")
            )
        memory = sample.memory
        used_bytes = None if memory is None else node_usage(sample.memory_policy, memory, sample.cold_bytes)
        node = _usage(node_cores, used_bytes)
        metrics = NodeMetrics(
            node=self._node,
            measured_at=round(now, 3),
            interval_s=round(interval_s, 3),
            cpu_total_milli=capacity,
            memory_total_bytes=0 if sample.memory is None else sample.memory.total_bytes,
            node_usage=node,
            system_usage=_system(node, sample, pod_cores, application_cores),
            by_qos=_by_qos(sample.groups, used.classes),
            pods=_pods(sample, pod_cores),
            cpu_pressure=_pressure(sample.pressure.get("cpu")),
            memory_pressure=_pressure(sample.pressure.get("memory")),
            io_pressure=_pressure(sample.pressure.get("io")),
            pressure_by_group=_pressures(sample.groups),
            suppress_cpu_milli=SUPPRESS_UNKNOWN if target is None else max(target.target_milli, 0),
            best_effort=(
                None
                if sample.driver is None
                else message_of(strategy, sample.best_effort, next_step, enforced=enforced)
            ),
            cgroup_version=sample.cgroup_version,
            problems=problems[:MAX_PROBLEMS],
            memory_policy=sample.memory_policy,
            host_applications=_applications(sample, application_cores),
        )
        return Measurement(
            metrics=metrics,
            target=target,
            skipped=skipped,
            plan=next_step,
            node_cores=node_cores,
            pod_cores=pod_cores,
            application_cores=application_cores,
        )

    def cores(self, sample: NodeSample) -> Cores:
        """Take the counters of one look. Each look is taken once, by this or by `measure`."""
        counters = self._counters
        counters.max_cores = (sample.online_cpus or MAX_PROCESSORS) * SLACK
        node = None if sample.cpu is None else counters.cores(NODE, sample.cpu)
        gathered_s = self._gathered_s(sample.cpu)
        names = {NODE}
        pods: dict[str, float] = {}
        for pod in sample.pods:
            names.add(name := f"pod/{pod.kube_qos}/{pod.uid}")
            if pod.group.cpu is not None and (used := counters.cores(name, pod.group.cpu)) is not None:
                pods[pod.uid] = used
        classes: dict[KubeQos, float] = {}
        for qos, group in sample.groups.items():
            names.add(name := f"class/{qos}")
            if group.cpu is not None and (used := counters.cores(name, group.cpu)) is not None:
                classes[qos] = used
        applications: dict[str, float] = {}
        for each in sample.applications:
            names.add(name := f"application/{each.name}")
            if each.group.cpu is not None and (used := counters.cores(name, each.group.cpu)) is not None:
                applications[each.name] = used
        counters.keep_only(names)
        return Cores(0.0 if node is None else gathered_s, node, pods, classes, applications)

    def _gathered_s(self, reading: Reading | None) -> float:
        """Return how long the usage of this round was gathered, and remember where the next one begins."""
        before, self._node_at = self._node_at, None if reading is None else reading.at
        return 0.0 if before is None or self._node_at is None else self._node_at - before


def _usage(cores: float | None, memory_bytes: int | None) -> Usage:
    return Usage(cpu_milli=int((cores or 0.0) * 1000), memory_bytes=memory_bytes or 0)


def _system(
    node: Usage, sample: NodeSample, pod_cores: Mapping[str, float], application_cores: Mapping[str, float]
) -> Usage:
    """Return what no pod and no application accounts for; one without a known use is part of it."""
    cpu_milli = int(sum(pod_cores.values()) * 1000) + int(sum(application_cores.values()) * 1000)
    groups = [each.group for each in sample.pods] + [each.group for each in sample.applications]
    memory = sum(each.memory_bytes or 0 for each in groups)
    return Usage(cpu_milli=max(node.cpu_milli - cpu_milli, 0), memory_bytes=max(node.memory_bytes - memory, 0))


def _by_qos(groups: Mapping[KubeQos, GroupSample], cores: Mapping[KubeQos, float]) -> dict[str, Usage]:
    """Return the use of each class; Guaranteed is what the root of all pods uses beyond the other two."""
    known: dict[KubeQos, Usage] = {}
    for qos, group in groups.items():
        used = cores.get(qos)
        if used is not None and group.memory_bytes is not None:
            known[qos] = _usage(used, group.memory_bytes)
    below = [known.get("Burstable"), known.get("BestEffort")]
    classes = {qos.lower(): usage for qos, usage in known.items() if qos != "Guaranteed"}
    root = known.get("Guaranteed")
    if root is not None and None not in below:
        cpu_milli = root.cpu_milli - sum(usage.cpu_milli for usage in below if usage)
        memory_bytes = root.memory_bytes - sum(usage.memory_bytes for usage in below if usage)
        classes["guaranteed"] = Usage(cpu_milli=max(cpu_milli, 0), memory_bytes=max(memory_bytes, 0))
    return dict(sorted(classes.items()))


def _pods(sample: NodeSample, pod_cores: Mapping[str, float]) -> list[PodUsage]:
    found = []
    for pod in sorted(sample.pods, key=lambda pod: pod.uid):
        cores = pod_cores.get(pod.uid)
        if cores is not None and pod.group.memory_bytes is not None:
            usage = _usage(cores, pod.group.memory_bytes)
            found.append(PodUsage(uid=pod.uid, qos=pod.kube_qos.lower(), usage=usage))
    return found


def _applications(sample: NodeSample, cores: Mapping[str, float]) -> list[HostApplicationUsage]:
    return [
        HostApplicationUsage(
            name=each.name,
            usage=_usage(cores[each.name], each.group.memory_bytes),
            qos=each.qos,
            priority_class=each.priority_class,
        )
        for each in sorted(sample.applications, key=lambda each: each.name)
        if each.name in cores and each.group.memory_bytes is not None
    ]


def _pressures(groups: Mapping[KubeQos, GroupSample]) -> dict[str, GroupPressure]:
    return {
        PRESSURE_NAMES[qos]: GroupPressure(
            cpu=_pressure(group.pressure.get("cpu")),
            memory=_pressure(group.pressure.get("memory")),
            io=_pressure(group.pressure.get("io")),
        )
        for qos, group in groups.items()
        if group.pressure
    }


def _pressure(stalls: StallPair | None) -> Pressure | None:
    if stalls is None:
        return None
    some, full = stalls
    return Pressure(
        some_avg10=some.avg10,
        some_avg60=some.avg60,
        full_avg10=0.0 if full is None else full.avg10,
        full_avg60=0.0 if full is None else full.avg60,
    )
