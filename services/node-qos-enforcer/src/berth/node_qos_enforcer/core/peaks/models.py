"""Histograms of pods, of workloads, of classes and of the system, and what prod pods leave by them.

A pod begins with what its workload has used on this node before, so that one that was rolled out anew is no stranger.
Whoever is known for no longer than the cold start leaves nothing. Times are unix seconds of one clock that a process
does not let go back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.metrics import Usage
from berth.contracts.names import CPU, MEMORY
from berth.node_qos_enforcer.core.peaks.buckets import CPU_CORES, MEMORY_BYTES
from berth.node_qos_enforcer.core.peaks.histogram import Histogram
from berth.node_qos_enforcer.core.peaks.reclaimable import NONE, SYSTEM, PodPeak, Rule, reclaimable
from berth.resources.amounts import Amounts
from berth.rules.cpus.qos import PRIORITY_CLASSES, PROD

EPSILON: Final = 1e-4
CPU_HALF_LIFE_S: Final = 43_200.0
MEMORY_HALF_LIFE_S: Final = 86_400.0
CPU_SHARE: Final = 0.95
MEMORY_SHARE: Final = 0.98
TRAINING_S: Final = 60.0
EXPIRES_S: Final = 1_800.0
"""A model that was not trained for so long is forgotten: it has missed too much."""
WORKLOAD_EXPIRES_S: Final = 86_400.0
WORKLOADS_MAX: Final = 1_000
ITEMS: Final = (SYSTEM, NONE, *sorted(PRIORITY_CLASSES))
NEEDED: Final = (SYSTEM, PROD, NONE)
"""Items without which nothing is predicted."""


class Known(NamedTuple):
    """What the cluster says of a pod. `workload` is its owner; empty: none. `is_alive`: it neither ended nor ends."""

    uid: str
    workload: str
    priority_class: str
    request: Amounts
    is_alive: bool = True


class Model:
    """What one thing has used. `since_s` is when the first sample was taken, `updated_s` the newest."""

    def __init__(self, since_s: float, cpu: Histogram | None = None, memory: Histogram | None = None) -> None:
        """Begin empty, or with these."""
        self.cpu = cpu or Histogram(CPU_CORES, EPSILON, CPU_HALF_LIFE_S, since_s)
        self.memory = memory or Histogram(MEMORY_BYTES, EPSILON, MEMORY_HALF_LIFE_S, since_s)
        self.since_s = self.updated_s = since_s

    def train(self, at_s: float, usage: Usage) -> None:
        """Take a sample."""
        self.cpu.add(usage.cpu_milli / 1000, 1.0, at_s)
        self.memory.add(float(usage.memory_bytes), 1.0, at_s)
        self.updated_s = at_s

    def peak(self) -> Amounts:
        """What it is going to need."""
        return {
            CPU: int(self.cpu.percentile(CPU_SHARE) * 1000),
            MEMORY: int(self.memory.percentile(MEMORY_SHARE)),
        }

    def heir(self) -> Model:
        """Another one that begins with the same samples, and is known for as long."""
        other = Model(self.since_s, self.cpu.copy(), self.memory.copy())
        other.updated_s = self.updated_s
        return other


class Models:
    """All of one node."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self.pods: dict[str, Model] = {}
        self.workloads: dict[str, Model] = {}
        self.items: dict[str, Model] = {}

    def train(self, at_s: float, node: Usage, used: Mapping[str, Usage], known: Mapping[str, Known]) -> None:
        """Take one sample of everything.

        Args:
            at_s: now.
            node: what the node uses.
            used: what each pod uses, by uid. A pod that the cluster does not know counts as one of no class.
            known: what the cluster says of them.
        """
        self.forget(at_s)
        sums = dict.fromkeys(ITEMS, Usage())
        for uid, usage in used.items():
            pod = known.get(uid)
            item = NONE if pod is None else pod.priority_class
            sums[item] = _plus(sums.get(item, Usage()), usage)
            workload = "" if pod is None else pod.workload
            self._pod(uid, workload, at_s).train(at_s, usage)
            if workload and (workload in self.workloads or len(self.workloads) < WORKLOADS_MAX):
                self.workloads.setdefault(workload, Model(at_s)).train(at_s, usage)
        of_pods = Usage(
            cpu_milli=sum(usage.cpu_milli for usage in used.values()),
            memory_bytes=sum(usage.memory_bytes for usage in used.values()),
        )
        sums[SYSTEM] = Usage(
            cpu_milli=max(node.cpu_milli - of_pods.cpu_milli, 0),
            memory_bytes=max(node.memory_bytes - of_pods.memory_bytes, 0),
        )
        for item, usage in sums.items():
            self.items.setdefault(item, Model(at_s)).train(at_s, usage)

    def _pod(self, uid: str, workload: str, at_s: float) -> Model:
        found = self.pods.get(uid)
        if found is None:
            of_workload = self.workloads.get(workload) if workload else None
            found = self.pods[uid] = Model(at_s) if of_workload is None else of_workload.heir()
        return found

    def forget(self, at_s: float) -> None:
        """Drop what was not trained for too long."""
        for models, expires_s in (
            (self.pods, EXPIRES_S),
            (self.items, EXPIRES_S),
            (self.workloads, WORKLOAD_EXPIRES_S),
        ):
            for key in [key for key, model in models.items() if at_s - model.updated_s > expires_s]:
                del models[key]

    def keep_pods(self, uids: Collection[str]) -> None:
        """Drop models of pods that are gone."""
        for uid in self.pods.keys() - set(uids):
            del self.pods[uid]

    def reclaimable(self, at_s: float, known: Iterable[Known], allocatable: Amounts, rule: Rule) -> Amounts | None:
        """What prod pods leave. None: nobody knows yet, which lends less than any figure.

        The items have to be as old as pods have to be: what was lost with a checkpoint begins cold, whatever the age of
        a pod.
        """
        items = {name: self.items[name] for name in NEEDED if name in self.items}
        if len(items) < len(NEEDED) or any(at_s - each.since_s <= rule.cold_start_s for each in items.values()):
            return None
        pods = [self._peak(pod, at_s) for pod in known]
        return reclaimable(rule, pods, {name: each.peak() for name, each in items.items()}, allocatable)

    def _peak(self, pod: Known, at_s: float) -> PodPeak:
        model = self.pods.get(pod.uid)
        if model is None:
            return PodPeak(pod.priority_class, pod.request, 0.0, None, pod.is_alive)
        return PodPeak(pod.priority_class, pod.request, at_s - model.since_s, model.peak(), pod.is_alive)


def _plus(one: Usage, other: Usage) -> Usage:
    return Usage(cpu_milli=one.cpu_milli + other.cpu_milli, memory_bytes=one.memory_bytes + other.memory_bytes)
