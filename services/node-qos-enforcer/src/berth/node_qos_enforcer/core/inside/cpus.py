"""Which CPUs and which CFS quota a container has.

A quota is that of the container's limit, smaller on a node whose CPUs do more than the reference's, and none for a pod
that has CPUs of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.seen import Limits, PodSeen
from berth.node_qos_enforcer.core.strategies.batch_law import batch_limits, read_spec
from berth.rules.cpu_normalization import normalised_quota
from berth.rules.cpus.container_cpuset import container_cpuset
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.qos import BE
from berth.rules.cpus.resource_status import FIELD, ResourceStatus
from berth.rules.cpus.shared_pools import SharedPools


class Wanted(NamedTuple):
    """What a container's limits are to be; None: as its creator says. `problem` says what could not be had.

    CPU shares and bytes of memory are what it begins with; later they are written into its control group.
    """

    cpus: str | None = None
    quota_us: int | None = None
    problem: Problem | None = None
    cpu_shares: int | None = None
    memory_limit: int | None = None


AS_IT_IS: Final = Wanted()


def wanted_limits(pod: PodSeen, base: Limits, pools: SharedPools, facts: InsideFacts) -> Wanted:
    """The limits of a container of this pod.

    Args:
        pod: whose record says what it was given. One that cannot be read leaves its containers alone.
        base: the limits that kubelet asked for.
        pools: the node's shared CPUs.
        facts: the rest that is known.
    """
    if facts.gives_back:
        return AS_IT_IS
    status = pod.status
    if isinstance(status, Problem):
        return Wanted(problem=Problem(field=f"{pod.key}.{status.field}", message=status.message))
    if status.cpus:
        return _own(pod, status, facts)
    cpus = container_cpuset(
        status,
        pools,
        qos=pod.qos,
        in_best_effort_group=pod.is_best_effort,
        system=facts.node.system_pod_cpus,
        kubelet_static=facts.kubelet_is_static,
    )
    quota_us = normalised_quota(base.quota_us or 0, facts.node.cpu_ratio, pod.qos, has_cpuset=False)
    problem = None
    if cpus == "" and status.zones and not pod.is_best_effort and facts.layout.all:
        zones = ", ".join(str(each.zone) for each in status.zones[:8])
        problem = Problem(
            field=f"{pod.key}.{FIELD}.numaNodeResources", message=f"no shared CPU is left in NUMA node {zones}"
        )
    return Wanted(cpus or None, quota_us, problem)


def with_batch_limits(wanted: Wanted, pod: PodSeen, container: str, facts: InsideFacts) -> Wanted:
    """The limits of a batch container, by what its pod's annotation says of batch resources."""
    if facts.gives_back or pod.qos != BE:
        return wanted
    spec = read_spec(pod.annotations)
    if isinstance(spec, Problem):
        return wanted._replace(problem=Problem(field=f"{pod.key}.{spec.field}", message=spec.message))
    limits = batch_limits(
        spec, qos=pod.qos, container=container, has_quota=facts.batch_quota, ratio=facts.node.cpu_ratio
    )
    if limits is None:
        return wanted
    return wanted._replace(
        quota_us=limits.cfs_quota if wanted.quota_us is None else wanted.quota_us,
        cpu_shares=limits.cpu_shares,
        memory_limit=limits.memory_limit if limits.memory_limit > 0 else None,
    )


def _own(pod: PodSeen, status: ResourceStatus, facts: InsideFacts) -> Wanted:
    """A list that names a CPU which is not there would have the kernel refuse all of it."""
    there = status.cpus & facts.layout.all
    if not facts.layout.all or there == status.cpus:
        return Wanted(status.cpuset, UNLIMITED)
    lost = format_cpuset(status.cpus - there)[:60]
    problem = Problem(field=f"{pod.key}.{FIELD}.cpuset", message=f"CPUs {lost} are not online on this node")
    return Wanted(format_cpuset(there), UNLIMITED, problem) if there else Wanted(problem=problem)
