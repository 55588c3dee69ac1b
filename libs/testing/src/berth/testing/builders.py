"""Objects of STATE and its neighbours, written the way a test would say them: `pod("train-0").gang("g", 4).gpus(1)`.

A builder is changed in place and handed to a `Feed`, which gives it a version. Amounts are in base units: cpu in
thousandths of a core, memory in bytes.
"""

from __future__ import annotations

from typing import Any, Final, Self

import msgspec

from berth.contracts import names
from berth.contracts.grants import VF, device, device_of
from berth.contracts.inventory import DeviceSlot
from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Toleration,
    TopologySpreadConstraint,
)
from berth.contracts.ledger import Grant
from berth.contracts.state import DeviceFunction, HostPort, Pod, PodTemplate
from berth.contracts.topology import CoreCpus, NodeTopology, ZoneCapacity

GI: Final = 1 << 30
GPU_MEMORY: Final = 16 * GI


class PodBuilder:
    """A pod in the making."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        self._fields: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
        self._template: dict[str, Any] = {"scheduler": names.SCHEDULER_NAME}
        self._requests: dict[str, int] = {}
        self._labels: dict[str, str] = {}
        self._annotations: dict[str, str] = {}

    def requests(self, amounts: dict[str, int] | None = None, *, cpu: int = 0, memory: int = 0) -> Self:
        """Add to the request."""
        self._requests.update(amounts or {})
        if cpu:
            self._requests[names.CPU] = cpu
        if memory:
            self._requests[names.MEMORY] = memory
        return self

    def gpus(self, count: int) -> Self:
        """Whole NVIDIA GPUs."""
        return self.requests({names.NVIDIA_GPU: count})

    def share(self, percent: int) -> Self:
        """A part of one GPU, compute and memory alike."""
        return self.requests({names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent})

    def gang(self, name: str, minimum: int | None = None, **settings: str) -> Self:
        """A member of a gang by annotations; `settings` such as mode, match_policy, groups. No minimum: by PodGroup."""
        if minimum is None:
            return self.label(names.LABEL_POD_GROUP, name)
        self.annotation(names.ANNOTATION_GANG_NAME, name).annotation(names.ANNOTATION_GANG_MIN, str(minimum))
        for key, value in settings.items():
            self.annotation(names.GANG_PREFIX + key.replace("_", "-"), value)
        return self

    def quota(self, name: str, *, non_preemptible: bool = False) -> Self:
        """Charged to a quota group; `non_preemptible`: non-preemptible."""
        if non_preemptible:
            self.label(names.LABEL_QUOTA_PREEMPTIBLE, "false")
        return self.label(names.LABEL_QUOTA_NAME, name)

    def label(self, key: str, value: str) -> Self:
        """Set a label."""
        self._labels[key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        """Set an annotation."""
        self._annotations[key] = value
        return self

    def only_on(self, key: str, *values: str) -> Self:
        """Required node affinity: the label has one of the values."""
        term = NodeSelectorTerm(match_expressions=[Requirement(key=key, operator="In", values=list(values))])
        required = NodeSelector(node_selector_terms=[term])
        affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
        return self._affinity(node_affinity=affinity)

    def near(self, key: str, labels: dict[str, str], **fields: Any) -> Self:
        """Required affinity: in one domain with pods that have these labels; `fields` are others of the term."""
        return self._affinity(pod_affinity=_required(key, labels, fields))

    def apart(self, key: str, labels: dict[str, str], **fields: Any) -> Self:
        """Required anti-affinity: in no domain with pods that have these labels; `fields` are others of the term."""
        return self._affinity(pod_anti_affinity=_required(key, labels, fields))

    def spread(self, key: str, labels: dict[str, str], max_skew: int = 1, **fields: Any) -> Self:
        """Spread over domains together with pods that have these labels; `fields` are others of the constraint."""
        constraint = TopologySpreadConstraint(
            **{
                "topology_key": key,
                "max_skew": max_skew,
                "when_unsatisfiable": "DoNotSchedule",
                "label_selector": LabelSelector(match_labels=labels),
                **fields,
            }
        )
        return self.template(topology_spread=[*self._template.get("topology_spread", ()), constraint])

    def _affinity(self, **parts: Any) -> Self:
        before = self._template.get("affinity") or Affinity()
        return self.template(affinity=msgspec.structs.replace(before, **parts))

    def tolerates(self, key: str) -> Self:
        """Tolerate any taint of this key."""
        return self.template(tolerations=[Toleration(key=key, operator="Exists")])

    def port(self, *ports: int) -> Self:
        """Host ports over TCP."""
        return self.template(host_ports=[HostPort(port=port) for port in ports])

    def on(self, node: str, devices: list[Grant] | None = None, phase: str = "Running") -> Self:
        """Bound to a node, with these devices."""
        if devices:
            self.annotation(names.ANNOTATION_DEVICE_ALLOCATED, allocated(devices))
        return self.set(node=node, phase=phase)

    def template(self, **fields: Any) -> Self:
        """Set fields of the template."""
        self._template.update(fields)
        return self

    def set(self, **fields: Any) -> Self:
        """Set fields of the pod itself."""
        self._fields.update(fields)
        return self

    def build(self, version: int) -> Pod:
        """The pod as of a version."""
        template = PodTemplate(
            **{
                **self._template,
                "requests": dict(self._requests),
                "labels": dict(self._labels),
                "annotations": dict(self._annotations),
            }
        )
        return Pod(**{"phase": "Pending", **self._fields, "version": version, "template": template})


def _required(key: str, labels: dict[str, str], fields: dict[str, Any]) -> PodAffinity:
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=labels), **fields)
    return PodAffinity(required_during_scheduling_ignored_during_execution=[term])


def pod(name: str, namespace: str = "default") -> PodBuilder:
    """A pending pod for Berth that asks for nothing yet."""
    return PodBuilder(name, namespace)


def gpu_slots(count: int, memory: int = GPU_MEMORY, unhealthy: tuple[int, ...] = ()) -> list[DeviceSlot]:
    """Whole GPUs with minors from 0."""
    return [
        DeviceSlot(
            kind="gpu",
            minor=minor,
            healthy=minor not in unhealthy,
            uuid=f"GPU-{minor}",
            amounts={names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: memory},
        )
        for minor in range(count)
    ]


def nic_slots(count: int, functions: int = 2) -> list[DeviceSlot]:
    """RDMA devices with minors from 0 and virtual functions, each on a PCIe root of its own, two on a NUMA node."""
    return [
        DeviceSlot(
            kind="rdma",
            minor=minor,
            uuid=f"0000:{minor:02x}:00.0",
            amounts={names.RDMA: 100},
            labels={"number": str(minor)},
            functions=[
                DeviceFunction(bus=f"0000:{minor:02x}:00.{number}", labels={"type": "general"})
                for number in range(1, functions + 1)
            ],
            **_place(minor),
        )
        for minor in range(count)
    ]


def with_places(slots: list[DeviceSlot], per_root: int = 1) -> list[DeviceSlot]:
    """The devices, so many of them on each PCIe root: the roots are those of `nic_slots`."""
    return [msgspec.structs.replace(slot, **_place(slot.minor // per_root)) for slot in slots]


def _place(root: int) -> dict[str, Any]:
    return {"numa_node": root // 2, "pcie": f"pci0000:{root:02x}"}


def gpu_grant(minor: int, percent: int = 100, memory: int = GPU_MEMORY) -> Grant:
    """A share of one GPU, memory filled in both forms."""
    amounts = {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent, names.GPU_MEMORY: percent * memory // 100}
    return device("gpu", minor, amounts)


def allocated(grants: list[Grant]) -> str:
    """The device annotation of a bound pod, amounts as plain integers."""
    content: dict[str, list[dict[str, object]]] = {}
    for grant in grants:
        resources = {name: str(amount) for name, amount in grant.amounts.items()}
        if grant.kind == VF:
            continue
        entry: dict[str, object] = {"minor": grant.minor, "resources": resources}
        functions = [each.id for each in grants if each.kind == VF and device_of(each) == (grant.kind, grant.minor)]
        if functions:
            entry["extension"] = {"vfs": [{"minor": -1, "busID": bus} for bus in functions]}
        content.setdefault(grant.kind, []).append(entry)
    return msgspec.json.encode(content).decode()


def node_topology(
    node: str = "",
    *,
    zones: int | tuple[int, ...] = 1,
    cores: int = 4,
    threads: int = 2,
    reserved: tuple[int, ...] = (),
    memory: int = 64 * GI,
    **fields: Any,
) -> NodeTopology:
    """Zones (so many from 0, or these ids) of so many cores each, on a socket each; CPUs of a core are neighbours."""
    ids = tuple(range(zones)) if isinstance(zones, int) else zones
    listed = [
        CoreCpus(zone=zone, socket=place, cpus=[threads * (cores * place + core) + each for each in range(threads)])
        for place, zone in enumerate(ids)
        for core in range(cores)
    ]
    capacity = [
        ZoneCapacity(
            zone=zone,
            amounts={
                names.CPU: 1000 * sum(cpu not in reserved for core in listed if core.zone == zone for cpu in core.cpus),
                names.MEMORY: memory,
            },
        )
        for zone in ids
    ]
    return NodeTopology(node=node, version=1, cores=listed, zones=capacity, reserved=list(reserved), **fields)
