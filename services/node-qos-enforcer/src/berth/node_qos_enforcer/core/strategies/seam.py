"""The seam between laws and who writes: what a law is given, what it answers, what it needs.

A round of a strategy is `decide(snapshot, spec, memory) -> Decided`. It reads no file and no clock: `snapshot.now_s`
is the time, and contents of files that it asked for by `reads` are in `snapshot.found`. A value that is no longer
wanted is undone by the executor, to what the pod's specification asks for now, else to what was found before the first
write. So a strategy that lacks fresh input says so by `skipped`, and keeps all that it wanted before; of a single file,
`KEEP` says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.cgroup_paths import Driver, KubeQos
from berth.node_qos_enforcer.core.laws.disks import NO_DISKS, Disks
from berth.node_qos_enforcer.core.node_facts import UNKNOWN, NodeFacts
from berth.node_qos_enforcer.core.proc import UNKNOWN_CPU, Cpu
from berth.node_qos_enforcer.core.topology import Processor

Spec = Mapping[str, Any]
"""The specification of the node's NodeSLO, with the protocol's names, merged over the defaults (`node_slo`)."""
Component = Literal["enforce", "enforce-network", "enforce-cores", "enforce-kernel", "enforce-perf"]
"""What an operator installs so that the agent has the rights that a strategy needs."""

KEEP: Final = None
"""The value of a file that is to stay as it is, whatever that is now."""


class Ref(NamedTuple):
    """A file: its knob, the folder that it is in, and which line of it (`key`, empty: all of it).

    `group` is relative to the root of the knob: of a control group as kubelet names it, without the controller
    (`kubepods.slice/kubepods-besteffort.slice`).
    """

    group: str
    knob: str
    key: str = ""


class Wanted(NamedTuple):
    """What a file is to have, as its knob writes it on version 2 (`knobs`); `KEEP`: what it has."""

    group: str
    knob: str
    value: str | None
    key: str = ""

    @property
    def ref(self) -> Ref:
        """Which file."""
        return Ref(self.group, self.knob, self.key)


class Mount(NamedTuple):
    """A folder of the host that the agent's pod has to see. `shares`: what is mounted there appears on the host."""

    path: str
    writes: bool = False
    shares: bool = False


class Needs(NamedTuple):
    """What has to be there.

    `knobs` are all that the strategy may set, of which this kernel must have one; `files` are paths of the host of
    which one must be there, beside knobs; `capabilities` are rights of Linux without `CAP_`, `host_pid` and
    `host_network` that the agent sees the node's processes and network. `tools` are programs of the agent's image.
    """

    knobs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    host_pid: bool = False
    host_network: bool = False
    privileged: bool = False
    tools: tuple[str, ...] = ()


class Container(NamedTuple):
    """A container that has not ended.

    Amounts are thousandths of a core and bytes, by resource; one that is not there is not asked for, or not known
    (`is_sized` false: nothing is known of it). `group` is empty while it is not known. `is_pinned`: it runs on CPUs of
    its own.
    """

    name: str
    id: str = ""
    group: str = ""
    requests: Mapping[str, int] = {}
    limits: Mapping[str, int] = {}
    is_sized: bool = False
    is_running: bool = True
    is_pinned: bool = False


class Pod(NamedTuple):
    """A pod of this node that has not ended.

    `qos` is the class of its label (empty: none), `kube_qos` decides where its group is. `priority_class` is that of
    its label or its priority, `priority` its value, None where nobody has said it. `requests` and `limits` are its own
    as a whole. `is_known`: labels and annotations have been read; without, only its group is there. `created` is RFC
    3339, empty where it is not known. `ips` are its addresses, unless it uses the node's own network (`host_network`).
    `may_lower_oom_scores`: its namespace may have others die before it. `volumes` are the folders of those whose disks
    it limits, by its own names for them.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    qos: str = ""
    kube_qos: KubeQos = "Burstable"
    priority_class: str = ""
    priority: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    requests: Mapping[str, int] = {}
    limits: Mapping[str, int] = {}
    containers: tuple[Container, ...] = ()
    group: str = ""
    sandbox_group: str = ""
    created: str = ""
    is_known: bool = False
    ips: tuple[str, ...] = ()
    host_network: bool = False
    may_lower_oom_scores: bool = False
    volumes: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        """How problems name it."""
        return f"pods[{self.namespace}/{self.name}]" if self.name else f"pods[{self.uid[:64]}]"


class Usage(NamedTuple):
    """What is used: cores and bytes, of pods by uid, of applications outside of them by name. What is not known is not
    there, never zero."""

    node_cores: float | None = None
    pod_cores: Mapping[str, float] = {}
    node_bytes: int | None = None
    pod_bytes: Mapping[str, int] = {}
    application_cores: Mapping[str, float] = {}


class Node(NamedTuple):
    """The machine. `version` is that of its control groups, 0 without any; `driver` names them, None: no kubelet.

    `capacity` and `allocatable` are thousandths of a core and bytes, as the cluster says; `facts` are what the cluster
    says of its CPUs. `below_best_effort` are all groups below the best-effort one, each after the one above it.
    `bandwidth` is what holds the best-effort group, `best_effort_cpus` the CPUs that it may really use, `all_cpus`
    those of the group of all pods; None: not known. `cpu` is what kind its CPUs are of.
    """

    name: str = ""
    version: int = 0
    driver: Driver | None = None
    processors: tuple[Processor, ...] = ()
    capacity: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}
    annotations: Mapping[str, str] = {}
    facts: NodeFacts = UNKNOWN
    capacity_milli: int = 0
    below_best_effort: tuple[str, ...] = ()
    bandwidth: Bandwidth | None = None
    best_effort_cpus: frozenset[int] | None = None
    all_cpus: frozenset[int] | None = None
    cpu: Cpu = UNKNOWN_CPU


class Snapshot(NamedTuple):
    """One consistent look. `now_s` is monotonic; `elapsed_s` since the look before, 0 at the first.

    `found` has the contents of files that a strategy has asked for, without white space around; one that is not there
    has no entry. `chance` is a number from 0 up to 1, drawn anew for each look.
    """

    node: Node
    pods: tuple[Pod, ...] = ()
    usage: Usage = Usage()
    found: Mapping[Ref, str] = {}
    now_s: float = 0.0
    elapsed_s: float = 0.0
    chance: float = 0.0
    disks: Disks = NO_DISKS


class Decided(NamedTuple):
    """What a strategy wants now, and what it remembers until the next round.

    `skipped` says why nothing was decided: what it wanted before stays. `reports` are what is wrong with pods or with
    the specification, each naming its field; `facts` are its terms for people.
    """

    wanted: tuple[Wanted, ...] = ()
    memory: Any = None
    reports: tuple[Problem, ...] = ()
    skipped: str = ""
    facts: Mapping[str, int | float | str] = {}


def _reads_nothing(snapshot: Snapshot, spec: Spec) -> Iterable[Ref]:
    return ()


class Strategy(NamedTuple):
    """A law and what it needs. `is_on` says whether the specification asks for it; one that is off wants nothing.

    `reads` names files whose contents it decides by; `reads_by_turns`: which ones, follows from the time as well.
    `memory` is what it remembers at first. `is_steady`: it decides by the pods, the node, the specification and the
    files that it reads, not by use or time, so that it is asked when one of those changes.
    """

    name: str
    component: Component
    decide: Callable[[Snapshot, Spec, Any], Decided]
    is_on: Callable[[Spec], bool]
    needs: Needs = Needs()
    reads: Callable[[Snapshot, Spec], Iterable[Ref]] = _reads_nothing
    memory: Any = None
    is_steady: bool = False
    reads_by_turns: bool = False
