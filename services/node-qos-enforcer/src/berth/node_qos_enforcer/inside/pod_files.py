"""The quota of pods that have CPUs of their own: the runtime knows limits of containers alone, and a pod's group would
hold its containers to theirs."""

from __future__ import annotations

from berth.contracts.base import Problem
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.inside.groups import pod_group
from berth.node_qos_enforcer.core.inside.seen import PodSeen
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.executor import GONE, Executor
from berth.node_qos_enforcer.files import Unreadable

QUOTA_V1, QUOTA_V2 = "cpu.cfs_quota_us", "cpu.max"


def lift_quota(executor: Executor, pod: PodSeen) -> Problem | None:
    """Take the CFS quota off a pod's group, if it has one. Blocking. A group that is not kubelet's is left alone."""
    group = pod_group(pod.cgroup_parent, pod.uid)
    if group is None:
        return None
    try:
        layout = cgroups.detect_layout(executor.tree)
        bandwidth = cgroups.read_bandwidth(executor.tree, layout, group)
        if layout.cpu is None or bandwidth is None or bandwidth.quota_us == UNLIMITED:
            return None
        if layout.cpu.version == 1:
            executor.write(layout.cpu.path(group, QUOTA_V1), str(UNLIMITED))
        else:
            executor.write(layout.cpu.path(group, QUOTA_V2), f"max {bandwidth.period_us}")
    except OSError as error:
        return None if error.errno in GONE else _problem(pod, error.strerror or "cannot be written")
    except (Malformed, Unreadable) as error:
        return _problem(pod, str(error)[:200])
    return None


def _problem(pod: PodSeen, message: str) -> Problem:
    return Problem(field=f"{pod.key}.cpu_quota", message=f"cannot be lifted: {message}")
