"""Which CPUs a container runs on: its pod's own, or those of a pool."""

from __future__ import annotations

from collections.abc import Iterable, Set

from berth.contracts.names import BATCH_CPU, CPU
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset
from berth.rules.cpus.qos import BE, LS, SYSTEM
from berth.rules.cpus.resource_status import ResourceStatus
from berth.rules.cpus.shared_pools import Pool, SharedPools


def container_cpuset(
    status: ResourceStatus,
    pools: SharedPools,
    *,
    qos: str,
    in_best_effort_group: bool,
    system: Set[int] = NO_CPUS,
    kubelet_static: bool = False,
    best_effort_by_zone: bool = False,
) -> str | None:
    """The text for `cpuset.cpus` of each container of a pod; None: leave it alone.

    The pod's own CPUs go before everything; with them its CFS quota is lifted. Then the first that holds: the pools of
    the zones that it was given cpu of, in that order (empty where none of them has a pool); for class SYSTEM the CPUs
    of the system; for class LS all pools; in the best-effort group nothing of its own (empty: it has what the group
    has); under kubelet's static policy kubelet's choice; else all pools.

    Args:
        status: what the pod was given. One that cannot be read says nothing: leave its containers alone.
        pools: the node's shared CPUs.
        qos: the pod's QoS class by its label.
        in_best_effort_group: its control group is below the best-effort one, whatever the label says.
        system: the CPUs for system pods.
        kubelet_static: kubelet's CPU manager gives out CPUs itself.
        best_effort_by_zone: best-effort pods stay in the zones that they were given (`BECPUManager`); without it such
            a pod is treated as one that was given none.
    """
    if status.cpus:
        return status.cpuset
    zones = [each.zone for each in status.zones if each.amounts.get(CPU, 0) > 0 or each.amounts.get(BATCH_CPU, 0) > 0]
    if zones and (qos != BE or best_effort_by_zone):
        offered = pools.best_effort if qos == BE else pools.shared
        return _joined(pool for zone in dict.fromkeys(zones) for pool in offered if pool.zone == zone)
    if qos == SYSTEM and system:
        return format_cpuset(system)
    if qos == LS:
        return _joined(pools.shared)
    if in_best_effort_group:
        return ""
    return None if kubelet_static else _joined(pools.shared)


def _joined(pools: Iterable[Pool]) -> str:
    """The lists one after the other, as Koordinator writes them; a pool without CPUs has none."""
    return ",".join(format_cpuset(pool.cpus) for pool in pools if pool.cpus)
