"""One value for each file, from what all strategies want.

A quota is what kubelet's limit is, or the one of batch resources; divided by how much the node's CPUs do more than the
reference's; raised by burst; and none where the container has CPUs of its own. A pod's is what its own limit is, plus
what its containers have more or less than theirs, or none where one of them has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import CPU, MEMORY
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.knob_texts import MAX
from berth.node_qos_enforcer.core.laws.cpu_burst import pod_quota
from berth.node_qos_enforcer.core.laws.cpu_values import milli_to_quota_us
from berth.node_qos_enforcer.core.strategies.knobs import (
    CPU_IDLE,
    CPU_QUOTA,
    CPU_SHARES,
    CPUSET,
    MEMORY_MAX,
    QUOTA_BURST,
    QUOTA_LIMIT,
    QUOTA_SCALE,
)
from berth.node_qos_enforcer.core.strategies.seam import KEEP, Container, Pod, Ref, Snapshot, Wanted
from berth.rules.cpus.cpuset import format_cpuset

_PARTS = frozenset({QUOTA_LIMIT, QUOTA_SCALE, QUOTA_BURST})


class Composed(NamedTuple):
    """What files are to have; `kept` are those that stay as they are, `problems` what contradicts itself."""

    values: Mapping[Ref, str]
    kept: frozenset[Ref] = frozenset()
    problems: tuple[Problem, ...] = ()


class Quota(NamedTuple):
    """A quota in 100 ms, -1 for none: what it is without burst, and what is wanted."""

    base_us: int
    wanted_us: int


def compose(snapshot: Snapshot, wanted: Iterable[Wanted]) -> Composed:
    """Put together what strategies want; of two values for one file the first counts.

    A group that is idle has no weight of its own: the kernel refuses one until it is idle no more.
    """
    values: dict[Ref, str] = {}
    parts: dict[Ref, str] = {}
    kept: set[Ref] = set()
    idle: list[Ref] = []
    problems: list[Problem] = []
    for group, knob, value, key in wanted:
        ref = Ref(group, knob, key)
        if value is KEEP:
            kept.add(ref)
            continue
        if knob == CPU_IDLE:
            idle.append(ref)
        into = parts if knob in _PARTS else values
        if into.setdefault(ref, value) != value:
            message = f"two strategies want it; {value[:60]} does not count"
            problems.append(Problem(field=f"{group}/{knob}", message=message))
    left = frozenset(each.group for each in kept if each.knob in _PARTS)
    kept = {each for each in kept if each.knob not in _PARTS}
    for pod in snapshot.pods if parts or left else ():
        groups = [each for each in (pod.group, *(one.group for one in pod.containers)) if each]
        if left.isdisjoint(groups):
            values |= _quotas(pod, parts)
        else:
            # Of one of them nobody knows what it is to be: the quotas of a pod are one sum.
            kept |= {Ref(each, CPU_QUOTA) for each in groups}
    for ref in idle:
        if values[ref] == "1":
            shares = Ref(ref.group, CPU_SHARES)
            values.pop(shares, None)
            kept.add(shares)
    return Composed(values, frozenset(kept - values.keys()), tuple(problems))


def base_quota(container: Container, limit: str | None, ratio: str | None) -> int:
    """A container's quota before burst, -1 for none."""
    if container.is_pinned:
        return UNLIMITED
    base_us = milli_to_quota_us(container.limits.get(CPU, 0)) if limit is None else _number(limit)
    return base_us if ratio is None or base_us < 0 else math.ceil(base_us / float(ratio))


def _quotas(pod: Pod, parts: Mapping[Ref, str]) -> dict[Ref, str]:
    """The quotas of a pod of which a strategy says something."""
    groups = [each.group for each in pod.containers if each.group]
    is_meant = any(Ref(group, part) in parts for group in (*groups, pod.group) for part in _PARTS)
    if not is_meant or not pod.group:
        return {}
    found: dict[Ref, str] = {}
    quotas: list[Quota] = []
    for each in pod.containers:
        limit = parts.get(Ref(each.group, QUOTA_LIMIT))
        if not each.group or not (each.is_sized or limit is not None):
            return found
        base_us = base_quota(each, limit, parts.get(Ref(each.group, QUOTA_SCALE)))
        burst = parts.get(Ref(each.group, QUOTA_BURST))
        wanted_us = base_us if burst is None or base_us < 0 else max(_number(burst), base_us)
        quotas.append(Quota(base_us, wanted_us))
        found[Ref(each.group, CPU_QUOTA)] = _text(wanted_us)
    found[Ref(pod.group, CPU_QUOTA)] = _text(_of_pod(pod, quotas, parts))
    return found


def _of_pod(pod: Pod, quotas: list[Quota], parts: Mapping[Ref, str]) -> int:
    if any(each.wanted_us < 0 for each in quotas):
        return UNLIMITED
    own = parts.get(Ref(pod.group, QUOTA_LIMIT))
    base_us = _number(own) if own is not None else milli_to_quota_us(pod.limits.get(CPU, 0))
    ratio = parts.get(Ref(pod.group, QUOTA_SCALE))
    if ratio is not None and base_us > 0:
        base_us = math.ceil(base_us / float(ratio))
    if base_us < 0:
        if not quotas:
            return UNLIMITED  # the runtime has not said yet which containers it has, or is not asked
        base_us = sum(each.base_us for each in quotas)
    return pod_quota(base_us, [each.base_us for each in quotas], [each.wanted_us for each in quotas])


def asked(snapshot: Snapshot, ref: Ref) -> str | None:
    """What the specification of a pod asks for now of a file, and of the best-effort group kubelet; None: not known.

    A value that nobody wants any more is put back to this: what was found before may be that of a smaller pod.
    """
    node = snapshot.node
    if node.driver is not None:
        best_effort = qos_dir(node.driver, "BestEffort")
        if ref == Ref(best_effort, CPU_QUOTA):
            return MAX
        if ref.knob == CPUSET and f"{ref.group}/".startswith(f"{best_effort}/"):
            return "" if node.version == 2 else format_cpuset(node.all_cpus or ()) or None
    if ref.knob not in (CPU_QUOTA, MEMORY_MAX):
        return None
    for pod in snapshot.pods:
        if ref.group == pod.group and pod.is_known and all(each.is_sized for each in pod.containers):
            is_limited = pod.containers and all(CPU in each.limits for each in pod.containers)
            has_memory = pod.containers and all(MEMORY in each.limits for each in pod.containers)
            return _of_limits(ref.knob, pod.limits, bool(is_limited if ref.knob == CPU_QUOTA else has_memory))
        for each in pod.containers:
            if each.group == ref.group and each.is_sized:
                if each.is_pinned and ref.knob == CPU_QUOTA:
                    return MAX
                return _of_limits(ref.knob, each.limits, True)
    return None


def _of_limits(knob: str, limits: Mapping[str, int], is_limited: bool) -> str:
    if knob == MEMORY_MAX:
        return str(limits[MEMORY]) if is_limited and limits.get(MEMORY, 0) > 0 else MAX
    return _text(milli_to_quota_us(limits.get(CPU, 0)) if is_limited else UNLIMITED)


def _number(value: str) -> int:
    return UNLIMITED if value == MAX else int(value)


def _text(quota_us: int) -> str:
    return MAX if quota_us < 0 else str(quota_us)
