"""What kubelet's CPU manager and topology manager do on a node: their policies, and the CPUs that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_CPU_MANAGER_POLICY, ANNOTATION_POD_CPU_ALLOCS
from berth.rules.bounded_json import annotation_field, read_annotation, read_json
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset, read_cpuset
from berth.rules.cpus.qos import BE, LS

STATIC: Final = "static"
"""The CPU manager gives CPUs of their own to Guaranteed pods that ask for whole ones."""
FULL_CORES_OPTION: Final = "full-pcpus-only"
CHECKPOINT_LENGTH_MAX: Final = 4 * 1024 * 1024
ALLOCS_LENGTH_MAX: Final = 256 * 1024

CHECKPOINT: Final = "cpu_manager_state"
"""The file of the checkpoint, below kubelet's root."""

BEST_EFFORT: Final = "BestEffort"
RESTRICTED: Final = "Restricted"
SINGLE_NUMA_NODE: Final = "SingleNUMANode"
NO_POLICY: Final = "None"
_REPORTED: Final = {"best-effort": BEST_EFFORT, "restricted": RESTRICTED, "single-numa-node": SINGLE_NUMA_NODE}
_SCOPES: Final = {"pod": "PodLevel", "container": "ContainerLevel"}
_NONE: Final = "null"
_NUMA_POLICIES: Final = frozenset({BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE})


class CpuManager(NamedTuple):
    """The CPU manager's policy, its options and the CPUs that kubelet keeps for itself (`reservedSystemCPUs`)."""

    policy: str = ""
    options: Mapping[str, str] = {}
    reserved: frozenset[int] = NO_CPUS

    @property
    def is_static(self) -> bool:
        """Whether kubelet gives out CPUs itself."""
        return self.policy == STATIC

    @property
    def full_cores_only(self) -> bool:
        """Whether kubelet admits only pods whose CPUs are whole cores."""
        return self.is_static and self.options.get(FULL_CORES_OPTION) == "true"


class PodCpus(NamedTuple):
    """CPUs that a pod has; a pod that the node does not know has its uid alone."""

    uid: str
    cpus: frozenset[int]
    namespace: str = ""
    name: str = ""
    managed_by_kubelet: bool = True


class NodePod(NamedTuple):
    """A pod of the node: its QoS class by its label (empty: none) and the CPUs of its `resource-status`."""

    uid: str
    qos: str = ""
    cpus: frozenset[int] = NO_CPUS
    namespace: str = ""
    name: str = ""


class HeldCpus(NamedTuple):
    """CPUs that kubelet's PodResources say of a pod, which they know by its name alone."""

    namespace: str
    name: str
    cpus: frozenset[int]


class Checkpoint(NamedTuple):
    """The CPU manager's state: by uid of the pod, then by container, the CPUs that it has given out."""

    policy: str = ""
    entries: Mapping[str, Mapping[str, frozenset[int]]] = {}


class _Manager(msgspec.Struct, frozen=True, rename="camel"):
    policy: str = ""
    options: dict[str, str] | None = None
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


class _Alloc(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: str = ""
    managed_by_kubelet: bool = False


class _State(msgspec.Struct, frozen=True, rename="camel"):
    policy_name: str
    entries: dict[str, dict[str, Annotated[str, msgspec.Meta(max_length=65_536)]]] | None = None


def read_cpu_manager(annotations: Mapping[str, str]) -> CpuManager | Problem:
    """The CPU manager by the annotation of a NodeResourceTopology; one without a policy where it says nothing."""
    read = read_annotation(annotations, ANNOTATION_CPU_MANAGER_POLICY, _Manager)
    if read is None:
        return CpuManager()
    if isinstance(read, Problem):
        return read
    field = f"{annotation_field(ANNOTATION_CPU_MANAGER_POLICY)}.reservedCPUs"
    reserved = read_cpuset(read.reserved_cpus, field)
    return reserved if isinstance(reserved, Problem) else CpuManager(read.policy, read.options or {}, reserved)


def format_cpu_manager(manager: CpuManager) -> str:
    """The text of that annotation."""
    content: dict[str, object] = {"policy": manager.policy}
    if manager.options:
        content["options"] = dict(sorted(manager.options.items()))
    if manager.reserved:
        content["reservedCPUs"] = format_cpuset(manager.reserved)
    return msgspec.json.encode(content).decode()


def read_checkpoint(text: str, field: str = CHECKPOINT) -> Checkpoint | Problem:
    """The content of kubelet's `cpu_manager_state`. A problem names `field`: what kubelet holds is not known then, so
    that nothing may be reported from it. A file that is not there is no checkpoint, and holds nothing."""
    read = read_json(text, _State, field, bytes_max=CHECKPOINT_LENGTH_MAX)
    if isinstance(read, Problem):
        return read
    entries: dict[str, dict[str, frozenset[int]]] = {}
    for uid, containers in (read.entries or {}).items():
        for container, text_of_cpus in containers.items():
            cpus = read_cpuset(text_of_cpus, f"{field}.entries[{uid[:64]}][{container[:64]}]")
            if isinstance(cpus, Problem):
                return cpus
            entries.setdefault(uid, {})[container] = cpus
    return Checkpoint(read.policy_name, entries)


def kubelet_allocations(
    checkpoint: Checkpoint, pods: Iterable[NodePod], held: Iterable[HeldCpus] = ()
) -> list[PodCpus]:
    """Pods that kubelet has given CPUs of their own: those of a static checkpoint, and those of its PodResources, which
    say it where the checkpoint cannot be read.

    Pods of the classes LS and BE and pods with CPUs of their record are none: their CPUs are not kubelet's to choose.
    By uid; a pod that is not known has its uid alone, or `NAMESPACE/NAME` in its place: without one it would not count.
    """
    pods = tuple(pods)
    by_uid = {pod.uid: pod for pod in pods}
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    entries = checkpoint.entries if checkpoint.policy == STATIC else {}
    given: dict[NodePod, frozenset[int]] = {}
    for uid, containers in entries.items():
        given[by_uid.get(uid, NodePod(uid))] = NO_CPUS.union(*containers.values())
    for each in held:
        unknown = NodePod(f"{each.namespace}/{each.name}", namespace=each.namespace, name=each.name)
        pod = by_name.get((each.namespace, each.name), unknown)
        given[pod] = given.get(pod, NO_CPUS) | each.cpus
    return [
        PodCpus(pod.uid, cpus, pod.namespace, pod.name)
        for pod, cpus in sorted(given.items(), key=lambda each: (each[0].uid, each[0].namespace, each[0].name))
        if cpus and pod.qos not in (LS, BE) and not pod.cpus
    ]


def read_pod_cpu_allocs(annotations: Mapping[str, str]) -> list[PodCpus] | Problem:
    """What a NodeResourceTopology says of pods with CPUs of their own."""
    field = annotation_field(ANNOTATION_POD_CPU_ALLOCS)
    text = annotations.get(ANNOTATION_POD_CPU_ALLOCS, "")
    if text in ("", _NONE):
        return []
    allocs = read_json(text, list[_Alloc], field, bytes_max=ALLOCS_LENGTH_MAX)
    if isinstance(allocs, Problem):
        return allocs
    found = []
    for place, each in enumerate(allocs):
        cpus = read_cpuset(each.cpuset, f"{field}[{place}].cpuset")
        if isinstance(cpus, Problem):
            return cpus
        found.append(PodCpus(each.uid, cpus, each.namespace, each.name, each.managed_by_kubelet))
    return found


def format_pod_cpu_allocs(allocations: Iterable[PodCpus]) -> str:
    """The text of that annotation."""
    allocs = [
        _Alloc(each.namespace, each.name, each.uid, format_cpuset(each.cpus), each.managed_by_kubelet)
        for each in allocations
    ]
    return msgspec.json.encode(allocs).decode() if allocs else _NONE


def reported_topology_policy(policy: str, scope: str) -> str:
    """What a NodeResourceTopology says of kubelet's `topologyManagerPolicy` and `topologyManagerScope`."""
    level = _SCOPES.get(scope, "")
    return f"{_REPORTED[policy]}{level}" if policy in _REPORTED and level else NO_POLICY


def numa_policy(reported: str, label: str) -> str:
    """The NUMA policy of a node: kubelet's, at whichever level it holds, else the one of the node's label.

    Kubelet refuses a pod that its own policy does not admit, so the label cannot soften that. `reported` is the entry
    of `topologyPolicies`. What is none of the three policies, also `None`, is none: the answer is empty then.
    """
    for level in _SCOPES.values():
        reported = reported.removesuffix(level)
    if reported in _NUMA_POLICIES:
        return reported
    return label if label in _NUMA_POLICIES else ""
