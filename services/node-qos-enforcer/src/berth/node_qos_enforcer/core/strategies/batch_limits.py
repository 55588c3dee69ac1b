"""Batch pods get the shares, quota and memory that they asked for in batch resources.

With the plugin of the container runtime a container has them from its beginning; this puts right what began without,
and the groups of pods.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.knob_texts import MAX
from berth.node_qos_enforcer.core.laws.batch import BatchLimits, batch_limits, read_spec
from berth.node_qos_enforcer.core.strategies.knobs import CPU_QUOTA, CPU_SHARES, MEMORY_MAX, QUOTA_LIMIT
from berth.node_qos_enforcer.core.strategies.node_slo import THRESHOLD
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Pod, Snapshot, Spec, Strategy, Wanted
from berth.rules.cpus.qos import BE


def quota_is_per_pod(spec: Spec) -> bool:
    """Whether each batch pod has a quota of its own: not where one of the group holds all of them."""
    section = spec.get(THRESHOLD, {})
    return not (section.get("enable") is True and section.get("cpuSuppressPolicy") == "cfsQuota")


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """The limits of each batch pod and its containers."""
    wanted: list[Wanted] = []
    reports: list[Problem] = []
    for pod in snapshot.pods:
        if pod.qos != BE or not pod.group:
            continue
        if pod.kube_qos != "BestEffort":
            field = f"{pod.key}.metadata.labels"
            message = f"is of class BE, but kubelet has put it among {pod.kube_qos} pods: nothing holds it back"
            reports.append(Problem(field=field, message=message))
        found = _of_pod(pod, spec, snapshot.node.facts.cpu_ratio)
        if isinstance(found, Problem):
            reports.append(Problem(field=f"{pod.key}.{found.field}", message=found.message))
        else:
            wanted += found
    return Decided(tuple(wanted), reports=tuple(reports))


def _of_pod(pod: Pod, spec: Spec, ratio: float | None) -> list[Wanted] | Problem:
    sizes = read_spec(pod.annotations)
    if isinstance(sizes, Problem):
        return sizes
    has_quota = quota_is_per_pod(spec)
    wanted: list[Wanted] = []
    for group, container in ((pod.group, None), *((each.group, each.name) for each in pod.containers if each.group)):
        limits = batch_limits(sizes, qos=pod.qos, container=container, has_quota=has_quota, ratio=ratio)
        if limits is not None:
            wanted += _values(group, limits)
    return wanted


def _values(group: str, limits: BatchLimits) -> list[Wanted]:
    return [
        Wanted(group, CPU_SHARES, str(limits.cpu_shares)),
        Wanted(group, QUOTA_LIMIT, _text(limits.cfs_quota)),
        Wanted(group, MEMORY_MAX, _text(limits.memory_limit)),
    ]


def _text(amount: int) -> str:
    return MAX if amount < 0 else str(amount)


BATCH_LIMITS: Final = Strategy(
    "batch-limits",
    "enforce",
    decide,
    lambda _: True,
    needs=Needs(knobs=(CPU_QUOTA, CPU_SHARES, MEMORY_MAX)),
    is_steady=True,
)
