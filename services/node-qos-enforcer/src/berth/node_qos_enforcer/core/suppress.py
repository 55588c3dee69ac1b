"""How much CPU the best-effort group of a node may use, and in which steps its quota follows.

Operators run batch work in the idle CPU of latency-sensitive services. The rule leaves best-effort pods what the
others do not use below a threshold of the node: the law of Koordinator's CPU suppress. Pure arithmetic on one
consistent sample; where the sample comes from, and who writes the result, is none of its business. A round without
the needed input is skipped by the caller (`skip_reason`), never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MIN_QUOTA_US = 2_000
"""The least quota ever written: the group must be able to make progress, and to notice that it is being stopped."""
UNLIMITED = -1
MAX_CORES = 1_000_000.0
"""A usage above this is not a measurement."""


class Pod(NamedTuple):
    """What the rule needs to know about a pod: QoS label (`""`: none), Kubernetes QoS class (`""`: not known)."""

    uid: str
    qos: str = ""
    kube_qos: str = ""

    @property
    def is_best_effort(self) -> bool:
        """Say whether the pod's usage belongs to the group that is suppressed."""
        return self.qos == "BE" or self.kube_qos == "BestEffort"


class HostApp(NamedTuple):
    """What the rule needs to know about an application outside of pods; `is_best_effort`: it is held with such pods."""

    name: str
    is_best_effort: bool = False


class Target(NamedTuple):
    """The answer with its terms, all in milli-cores, so that a reader can follow the sum."""

    target_milli: int
    limit_milli: int
    pods_milli: int
    system_milli: int
    floored: bool
    host_apps_milli: int = 0


def suppress_target(
    *,
    capacity_milli: int,
    allocatable_milli: int | None = None,
    annotation_reserved_milli: int = 0,
    node_used_cores: float,
    pod_used_cores: Mapping[str, float],
    pods: Sequence[Pod] = (),
    threshold_percent: int,
    min_percent: int | None = None,
    host_apps: Sequence[HostApp] = (),
    host_app_used_cores: Mapping[str, float] | None = None,
) -> Target:
    """Compute the CPU ceiling of the best-effort group.

    `capacity * threshold% - non-BE pods - non-BE host applications - system`, each term cut to whole milli-cores by
    itself. System is what neither a pod nor a host application accounts for, at least what the kubelet or the node's
    annotation reserves. A usage without a known pod or application counts as not best-effort.

    Args:
        capacity_milli: CPU capacity of the node (not its allocatable).
        allocatable_milli: what the kubelet offers; None: all of the capacity.
        annotation_reserved_milli: CPU reserved by the node's reservation annotation.
        node_used_cores: cores in use on the whole node.
        pod_used_cores: pod uid -> cores in use.
        pods: the known pods of the node.
        threshold_percent: share of the node that may be in use in total.
        min_percent: share of the node that the best-effort group keeps in any case; None: no such floor.
        host_apps: the node's applications outside of pods.
        host_app_used_cores: their cores in use by name; one that is not there counts as the system's.

    Returns:
        The target, which may be negative or zero: the others alone are above the threshold.

    Raises:
        ValueError: naming the argument that is negative, not finite or absurd.

    Source: Koordinator, BE CPU suppress.
    """
    _check("capacity_milli", capacity_milli / 1000)
    _check("annotation_reserved_milli", annotation_reserved_milli / 1000)
    _check("node_used_cores", node_used_cores)
    for uid, cores in pod_used_cores.items():
        _check(f"pod_used_cores[{uid}]", cores)
    if threshold_percent < 0 or (min_percent is not None and min_percent < 0):
        raise ValueError("threshold_percent and min_percent must not be negative")

    best_effort = {pod.uid for pod in pods if pod.is_best_effort}
    pods_all = sum(pod_used_cores.values())
    pods_others = sum(cores for uid, cores in pod_used_cores.items() if uid not in best_effort)
    of_apps = host_app_used_cores or {}
    for name, cores in of_apps.items():
        _check(f"host_app_used_cores[{name}]", cores)
    with_pods = {app.name for app in host_apps if app.is_best_effort}
    apps_others = sum(cores for name, cores in of_apps.items() if name not in with_pods)

    reserved_milli = max(
        0 if allocatable_milli is None else capacity_milli - allocatable_milli, annotation_reserved_milli, 0
    )
    limit_milli = capacity_milli * threshold_percent // 100
    pods_milli = int(pods_others * 1000)
    apps_milli = int(apps_others * 1000)
    system_milli = max(int(max(node_used_cores - pods_all - sum(of_apps.values()), 0.0) * 1000), reserved_milli)
    target = limit_milli - pods_milli - apps_milli - system_milli
    floor = None if min_percent is None else capacity_milli * min_percent // 100
    floored = floor is not None and target < floor
    return Target(
        target_milli=floor if floored and floor is not None else target,
        limit_milli=limit_milli,
        pods_milli=pods_milli,
        system_milli=system_milli,
        floored=floored,
        host_apps_milli=apps_milli,
    )


def skip_reason(*, node_used_cores: float | None, pods: int, pod_usages: int) -> str:
    """Say why this round has no target (`""`: it has one): a target from half a sample would be a guess."""
    if node_used_cores is None:
        return "node CPU usage is not known yet"
    if pods == 0:
        return "no pods found on this node"
    if pod_usages == 0:
        return "no pod has a known CPU usage yet"
    return ""


def quota_step(*, target_milli: int, current_quota_us: int, node_cores: int) -> int | None:
    """Give the next CFS quota of the best-effort group (microseconds in a period of 100 ms), or None to leave it.

    A change below one percent of the node is not worth a write, except down to the minimum. Growth is at most a tenth
    of the node per round, because a jump hurts the services at once; shrinking, and leaving "unlimited", are not held
    back.

    Args:
        target_milli: the target of `suppress_target`.
        current_quota_us: what is in force; -1 is unlimited.
        node_cores: CPU capacity in whole cores.

    Any quota is written while the group is unlimited. Koordinator compares with the number -1 instead, which leaves the
    group unlimited exactly when its target is below one percent of the node.
    """
    wanted = max(target_milli * 100, MIN_QUOTA_US)
    if wanted == MIN_QUOTA_US:
        return wanted
    if current_quota_us == UNLIMITED:
        return wanted
    if abs(wanted - current_quota_us) < node_cores * 1_000:
        return None
    return min(wanted, current_quota_us + node_cores * 10_000)


def _check(field: str, cores: float) -> None:
    if not math.isfinite(cores) or cores < 0 or cores > MAX_CORES:
        raise ValueError(f"{field} is not a plausible amount of CPU: {cores!r}")
