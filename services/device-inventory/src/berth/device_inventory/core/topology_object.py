"""The NodeResourceTopology object of a node, made from its agent's report, the node and its pods.

Zones, policies and annotations are those that koordlet writes. What follows from the node's own annotations and from
pods with CPUs of their own is worked out here, since the agent sees neither. What NUMA nodes lend is
slo-manager's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.command import MANAGER
from berth.contracts.node_report import NodeReport, ReportedKubelet, ReportedZone
from berth.contracts.state import Node, NodeResourceTopology, Pod
from berth.device_inventory.core.zone_lending import Lent
from berth.resources.amounts import format_amount
from berth.rules.cpu_normalization import CPU_BASIC_INFO
from berth.rules.cpus.cpuset import NO_CPUS, read_cpuset
from berth.rules.cpus.kubelet import (
    NO_POLICY,
    STATIC,
    Checkpoint,
    CpuManager,
    HeldCpus,
    NodePod,
    format_cpu_manager,
    format_pod_cpu_allocs,
    kubelet_allocations,
    reported_topology_policy,
)
from berth.rules.cpus.layout import Cpu, CpuLayout, format_layout
from berth.rules.cpus.node_reservation import cpus_of, read_node_reservation, with_listed_cpus
from berth.rules.cpus.resource_status import read_resource_status
from berth.rules.cpus.shared_pools import format_pools, shared_pools
from berth.rules.cpus.system_qos import read_system_cpus
from berth.rules.cpus.zone_reservation import kubelet_reservation, zone_allocatable

NOTHING: Final[Lent] = {}
API: Final = "topology.node.k8s.io/v1alpha1/noderesourcetopologies"
PART: Final = "cpus"
"""The part of a report that the object is made of; kubelet's words join it where there are any."""
BYTES_MAX: Final = 250_000
"""The API server takes 256 KiB of annotations."""
_DONE: Final = frozenset({"Succeeded", "Failed"})


class TopologyObject(NamedTuple):
    """What the object is to say: `fields` at its top level, and annotations."""

    fields: dict[str, Any]
    annotations: dict[str, str]


def pinned_pod(pod: Pod) -> NodePod | None:
    """What of a pod concerns the CPUs of its node; None while it is on none, and when it has ended.

    A record that cannot be read pins nothing that could be said here; the last check and the auditor name it.
    """
    if not pod.node or pod.phase in _DONE:
        return None
    status = read_resource_status(pod.template.annotations)
    cpus = NO_CPUS if isinstance(status, Problem) else status.cpus
    qos = pod.template.labels.get(names.LABEL_QOS, "")
    return NodePod(pod.uid, qos, cpus, pod.namespace, pod.name)


def depends_on(report: NodeReport, node: Node, pods: Iterable[NodePod], lent: Lent = NOTHING) -> tuple[object, ...]:
    """What beside the report the object depends on, to be compared: pods come and go, and most change nothing."""
    pinned = {pin.uid for pin in report.kubelet.pinned} if report.kubelet is not None else set()
    held = {(each.namespace, each.pod) for each in report.held if each.cpus}
    marks = [
        node.annotations.get(name) for name in (names.ANNOTATION_NODE_RESERVATION, names.ANNOTATION_NODE_SYSTEM_QOS)
    ]
    spread = node.labels.get(names.LABEL_NUMA_RESERVATION) == "true"
    amounts = [
        each.get(name) for each in (node.capacity, node.allocatable) for name in (names.CPU, names.MEMORY) if spread
    ]
    return (*marks, *amounts, spread, frozenset(pod for pod in pods if _concerns(pod, pinned, held)), lent)


def topology_object(
    report: NodeReport, node: Node, pods: Iterable[NodePod], lent: Lent = NOTHING
) -> TopologyObject | Problem | None:
    """The object; None where nobody looks at the node's CPUs. A problem names what keeps it from being made. `lent` is
    what its NUMA nodes are to show that they lend: where one does, those that are not named show that they have none.
    """
    if PART not in report.parts or not report.cores:
        return None
    layout = _layout(report)
    if isinstance(layout, Problem):
        return layout
    pods, kubelet = tuple(pods), report.kubelet
    checkpoint, held = _checkpoint(kubelet), _held(report)
    if isinstance(checkpoint, Problem):
        return checkpoint
    if isinstance(held, Problem):
        return held
    if held and (kubelet is None or not kubelet.cpu_manager):
        # It does not say so, and does it.
        kubelet = replace(kubelet or ReportedKubelet(), cpu_manager=STATIC)
    allocated = kubelet_allocations(checkpoint, pods, held)
    reservation, _ = read_node_reservation(node.annotations)
    system = read_system_cpus(node.annotations)
    pools = shared_pools(
        layout,
        kubelet=allocated,
        pods=pods,
        reserved=cpus_of(reservation, layout),
        system=NO_CPUS if isinstance(system, Problem) else system.kept,
    )
    annotations = {
        names.ANNOTATION_CPU_TOPOLOGY: format_layout(layout),
        names.ANNOTATION_POD_CPU_ALLOCS: format_pod_cpu_allocs(allocated),
        names.ANNOTATION_CPU_SHARED_POOLS: format_pools(pools.shared),
        names.ANNOTATION_BE_CPU_SHARED_POOLS: format_pools(pools.best_effort),
        CPU_BASIC_INFO: _basic_info(report),
    }
    if kubelet is not None:
        annotations[names.ANNOTATION_CPU_MANAGER_POLICY] = _cpu_manager(kubelet)
    if text := node.annotations.get(names.ANNOTATION_NODE_RESERVATION, ""):
        annotations[names.ANNOTATION_NODE_RESERVATION] = with_listed_cpus(text, reservation, layout)
    if text := node.annotations.get(names.ANNOTATION_NODE_SYSTEM_QOS, ""):
        annotations[names.ANNOTATION_NODE_SYSTEM_QOS] = text
    size = sum(len(name) + len(value.encode()) for name, value in annotations.items())
    if size > BYTES_MAX:
        return Problem(field="cores", message=f"its annotations would have {size} bytes, at most {BYTES_MAX} are taken")
    return TopologyObject(
        {"topologyPolicies": [_policy(kubelet)], "zones": _zones(report, node, layout, lent)}, annotations
    )


def is_ours(topology: NodeResourceTopology) -> bool:
    """Whether the object that is there may be changed: one of another agent never is."""
    return topology.labels.get(names.LABEL_MANAGED_BY) == MANAGER


def shows(topology: NodeResourceTopology, wanted: TopologyObject) -> bool:
    """Whether the object says what it is to say. Annotations of others are theirs."""
    said = {name: topology.annotations.get(name) for name in {*wanted.annotations, *_OF_THE_NODE}}
    due = {name: wanted.annotations.get(name) for name in said}
    fields = {"topologyPolicies": topology.policies, "zones": topology.zones}
    return said == due and fields == wanted.fields


_OF_THE_NODE: Final = (
    names.ANNOTATION_CPU_MANAGER_POLICY,
    names.ANNOTATION_NODE_RESERVATION,
    names.ANNOTATION_NODE_SYSTEM_QOS,
)
"""Annotations that the object has only sometimes, and that have to go again."""


def _layout(report: NodeReport) -> CpuLayout | Problem:
    """The layout that was reported, or what in it cannot be: an agent is believed no more than anybody else."""
    cpus: dict[int, Cpu] = {}
    cores: set[tuple[int, int]] = set()
    for position, core in enumerate(report.cores):
        field = f"cores[{position}]"
        members = read_cpuset(core.cpus, f"{field}.cpus")
        if isinstance(members, Problem):
            return members
        if (core.socket, core.core) in cores:
            return Problem(field=field, message=f"core {core.core} of socket {core.socket} is there twice")
        if not members or members & cpus.keys():
            return Problem(field=f"{field}.cpus", message=f"{core.cpus[:60]!r} has no CPU, or one of another core")
        if not all(0 <= number < 2**31 for number in (core.socket, core.core, core.zone)):
            return Problem(field=field, message="socket, core and zone must be numbers from 0 to 2147483647")
        cores.add((core.socket, core.core))
        cpus |= {cpu: Cpu(cpu, core.core, core.socket, core.zone) for cpu in members}
    return CpuLayout(cpus.values())


def _concerns(pod: NodePod, pinned: Set[str], held: Set[tuple[str, str]]) -> bool:
    return bool(pod.cpus) or pod.uid in pinned or (pod.namespace, pod.name) in held


def _checkpoint(kubelet: ReportedKubelet | None) -> Checkpoint | Problem:
    """What kubelet has given out. What cannot be read would pass for free, so that nothing is made of the report."""
    if kubelet is None:
        return Checkpoint()
    entries: dict[str, Mapping[str, frozenset[int]]] = {}
    for place, pin in enumerate(kubelet.pinned):
        cpus = read_cpuset(pin.cpus, f"kubelet.pinned[{place}].cpus")
        if isinstance(cpus, Problem):
            return cpus
        entries[pin.uid] = {"": cpus}
    return Checkpoint(kubelet.cpu_manager, entries)


def _held(report: NodeReport) -> list[HeldCpus] | Problem:
    found = []
    for place, each in enumerate(report.held):
        cpus = read_cpuset(each.cpus, f"held[{place}].cpus")
        if isinstance(cpus, Problem):
            return cpus
        if cpus:
            found.append(HeldCpus(each.namespace, each.pod, cpus))
    return found


def _cpu_manager(kubelet: ReportedKubelet) -> str:
    reserved = read_cpuset(kubelet.reserved_cpus, "reserved_cpus")
    cpus = NO_CPUS if isinstance(reserved, Problem) else reserved
    return format_cpu_manager(CpuManager(kubelet.cpu_manager, kubelet.cpu_manager_options, cpus))


def _policy(kubelet: ReportedKubelet | None) -> str:
    return NO_POLICY if kubelet is None else reported_topology_policy(kubelet.topology_manager, kubelet.topology_scope)


def _basic_info(report: NodeReport) -> str:
    cpu = report.cpu
    if cpu is None:
        return "{}"
    content = {
        "cpuModel": cpu.model,
        "hyperThreadEnabled": cpu.hyper_threads,
        "turboEnabled": cpu.turbo,
        "catL3CbmMask": cpu.l3_mask,
        "vendorID": cpu.vendor,
    }
    return msgspec.json.encode(content).decode()


def _zones(report: NodeReport, node: Node, layout: CpuLayout, lent: Lent) -> list[dict[str, Any]]:
    reserved: dict[str, int] = {}
    if node.labels.get(names.LABEL_NUMA_RESERVATION) == "true":
        kept = kubelet_reservation(node.capacity, node.allocatable)
        reserved = {name: amount if name == names.CPU else 1000 * amount for name, amount in kept.items()}
    none = dict.fromkeys(sorted({name for amounts in lent.values() for name in amounts}), 0)
    return [_zone(zone, report.zones, layout, reserved, {**none, **lent.get(zone.zone, {})}) for zone in report.zones]


def _zone(
    zone: ReportedZone,
    zones: list[ReportedZone],
    layout: CpuLayout,
    reserved_milli: Mapping[str, int],
    lent: Mapping[str, int],
) -> dict[str, Any]:
    """One zone. Amounts are in the units of requests, cpu in thousandths."""
    cpu = 1000 * len(layout.zone_cpus.get(zone.zone, NO_CPUS))
    memory = max(0, zone.memory - sum(zone.hugepages.values()))
    capacity = {names.CPU: cpu, names.MEMORY: memory, **zone.hugepages}
    left = zone_allocatable({names.CPU: cpu, names.MEMORY: 1000 * memory}, reserved_milli, len(zones))
    allocatable = capacity | {names.CPU: left[names.CPU], names.MEMORY: left[names.MEMORY] // 1000} | dict(lent)
    resources = [
        {
            "name": name,
            "capacity": format_amount(name, amount),
            "allocatable": format_amount(name, allocatable[name]),
            "available": format_amount(name, allocatable[name]),
        }
        for name, amount in sorted((capacity | dict(lent)).items())
    ]
    fields: dict[str, Any] = {"name": f"node-{zone.zone}", "type": "Node", "resources": resources}
    if len(zone.distances) == len(zones):
        fields["costs"] = [
            {"name": f"node-{other.zone}", "value": distance}
            for other, distance in zip(zones, zone.distances, strict=True)
        ]
    return fields
