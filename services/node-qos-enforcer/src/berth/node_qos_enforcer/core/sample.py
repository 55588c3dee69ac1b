"""One look at the node: everything that was read in one pass, before any arithmetic.

Counters carry the moment they were read, since a pass over hundreds of groups takes time. What could not be read is
None and named in `problems`; what was not there is just None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_paths import Driver, KubeQos
from berth.node_qos_enforcer.core.plan import NOT_HELD, Held
from berth.node_qos_enforcer.core.pressure import StallPair
from berth.node_qos_enforcer.core.proc import MemInfo
from berth.node_qos_enforcer.core.usage import Reading

RESOURCES = ("cpu", "memory", "io")


@dataclass(frozen=True, kw_only=True)
class GroupSample:
    """Use and pressure of one control group; None, or not there: not known (gone, or this machine does not tell)."""

    cpu: Reading | None = None
    memory_bytes: int | None = None
    pressure: dict[str, StallPair] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PodSample:
    """Use of one pod, found by the name of its directory below its Kubernetes QoS class."""

    uid: str
    kube_qos: KubeQos
    group: GroupSample


@dataclass(frozen=True, kw_only=True)
class ApplicationSample:
    """Use of an application outside of pods; `is_best_effort`: it is held with the best-effort ones."""

    name: str
    is_best_effort: bool
    group: GroupSample
    qos: str = ""
    priority_class: str = ""


@dataclass(frozen=True, kw_only=True)
class NodeSample:
    """One pass. `groups` holds the directories of the QoS classes; that of Guaranteed is the root of all pods.
    `memory_policy` says which memory counts as used (`cold_memory`), `cold_bytes` how much of the node's is cold.

    Pressure is read for the classes, not for pods.
    """

    cpu: Reading | None = None
    memory: MemInfo | None = None
    pressure: dict[str, StallPair] = field(default_factory=dict)
    online_cpus: int = 0
    cgroup_version: int = 0
    driver: Driver | None = None
    groups: dict[KubeQos, GroupSample] = field(default_factory=dict)
    pods: tuple[PodSample, ...] = ()
    best_effort: Held = NOT_HELD
    applications: tuple[ApplicationSample, ...] = ()
    vanished: int = 0
    problems: tuple[Problem, ...] = ()
    memory_policy: str = ""
    cold_bytes: int = 0
