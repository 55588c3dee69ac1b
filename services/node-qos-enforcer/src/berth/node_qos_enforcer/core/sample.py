"""One look at the node: everything that was read in one pass, before any arithmetic.

Counters carry the moment they were read, since a pass over hundreds of groups takes time. What could not be read is
None and named in `problems`; what was not there is just None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.cgroup_paths import Driver, KubeQos
from berth.node_qos_enforcer.core.pressure import StallPair
from berth.node_qos_enforcer.core.proc import MemInfo
from berth.node_qos_enforcer.core.usage import Reading

RESOURCES = ("cpu", "memory", "io")


@dataclass(frozen=True, kw_only=True)
class GroupSample:
    """Use of one control group; None: not known (gone, or this machine does not count it)."""

    cpu: Reading | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class PodSample:
    """Use of one pod, found by the name of its directory below its Kubernetes QoS class."""

    uid: str
    kube_qos: KubeQos
    group: GroupSample


@dataclass(frozen=True, kw_only=True)
class NodeSample:
    """One pass. `groups` holds the directories of the QoS classes; that of Guaranteed is the root of all pods."""

    cpu: Reading | None = None
    memory: MemInfo | None = None
    pressure: dict[str, StallPair] = field(default_factory=dict)
    online_cpus: int = 0
    cgroup_version: int = 0
    driver: Driver | None = None
    groups: dict[KubeQos, GroupSample] = field(default_factory=dict)
    pods: tuple[PodSample, ...] = ()
    best_effort_bandwidth: Bandwidth | None = None
    best_effort_cpus: frozenset[int] | None = None
    vanished: int = 0
    problems: tuple[Problem, ...] = ()
