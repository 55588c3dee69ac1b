"""One machine as objects: its Node, its Device and its NodeResourceTopology."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from berth.contracts import names
from berth.rules.cpu_normalization import CPU_BASIC_INFO
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.kubelet import NO_POLICY
from berth.simcluster.generate.build import node_manifest
from berth.simcluster.generate.mixed.machines import Machine
from berth.simcluster.store.objects import Json
from berth.vendors.devices import Found, FoundDevice, Place
from berth.vendors.report import entry, labels_of

PODS: Final = 256
_SOCKETS: Final = 2
_PER_SWITCH: Final = 2
"""Accelerators on one PCIe root; a NIC is on each of them as far as there are NICs."""


def manifests(machine: Machine, name: str, *, zone: str, policy: str = NO_POLICY, index: int = 0) -> list[Json]:
    """The objects of a machine. `policy` is kubelet's NUMA policy as its topology object says it."""
    node = node_manifest(
        name, cpu_milli=1000 * machine.cpus, memory_mib=1024 * machine.memory_gib, pods=PODS, zone=zone, index=index
    )
    devices = list(_devices(machine, name))
    labels = labels_of(Found(devices=tuple(devices), model=machine.model))
    node["metadata"]["labels"] |= labels
    if machine.isolates:
        node["metadata"]["labels"][names.LABEL_GPU_ISOLATION] = "HAMi-core"
    found = [node]
    if devices:
        found.append(
            {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "Device",
                "metadata": {"name": name, "labels": labels},
                "spec": {"devices": [entry(device) for device in devices]},
            }
        )
    return [*found, _topology(machine, name, policy)]


def _devices(machine: Machine, node: str) -> Iterator[FoundDevice]:
    switches = -(-machine.cards // _PER_SWITCH) or machine.nics or machine.fpgas
    for minor in range(machine.cards):
        yield FoundDevice(
            kind="gpu",
            minor=minor,
            id=f"{(machine.vendor or 'gpu').upper()}-{node}-{minor}",
            vendor=machine.vendor,
            model=machine.model,
            amounts=machine.amounts,
            place=_place(machine, minor // _PER_SWITCH, switches, 1 + minor % _PER_SWITCH),
        )
    for minor in range(machine.nics):
        place = _place(machine, minor * switches // machine.nics, switches, 8 + minor % _PER_SWITCH)
        functions = tuple(f"{place.bus[:-1]}{number}" for number in range(1, machine.functions + 1))
        amounts = {names.RDMA: 100}
        yield FoundDevice(kind="rdma", minor=minor, id=place.bus, amounts=amounts, place=place, functions=functions)
    for minor in range(machine.fpgas):
        place = _place(machine, minor, switches, 4)
        yield FoundDevice(kind="fpga", minor=minor, id=place.bus, amounts={names.FPGA: 100}, place=place)


def _place(machine: Machine, switch: int, switches: int, device: int) -> Place:
    """On a PCIe root: the first of them hang on the first NUMA node, and so on."""
    zone = machine.zones[min(switch * len(machine.zones) // switches, len(machine.zones) - 1)]
    bus = f"0000:{16 * (switch % 15 + 1) + device:02x}:00.0"
    return Place(numa_node=zone, pcie=f"pci0000:{16 * (switch % 15 + 1):02x}", bus=bus)


def _topology(machine: Machine, name: str, policy: str) -> Json:
    sockets = {zone: place * _SOCKETS // len(machine.zones) for place, zone in enumerate(machine.zones)}
    cores = [zone for zone in machine.zones for _ in range(machine.cores)]
    detail = [
        {"id": thread * len(cores) + core, "core": core, "socket": sockets[zone], "node": zone}
        for thread in range(machine.threads)
        for core, zone in enumerate(cores)
    ]
    cpus = {zone: format_cpuset(each["id"] for each in detail if each["node"] == zone) for zone in machine.zones}
    pools = [{"socket": sockets[zone], "node": zone, "cpuset": cpus[zone]} for zone in machine.zones]
    info = {
        "cpuModel": machine.name,
        "hyperThreadEnabled": machine.threads > 1,
        "turboEnabled": True,
        "vendorID": "GenuineIntel",
    }
    annotations = {
        names.ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail}, separators=(",", ":")),
        names.ANNOTATION_CPU_SHARED_POOLS: json.dumps(pools),
        names.ANNOTATION_BE_CPU_SHARED_POOLS: json.dumps(pools),
        names.ANNOTATION_POD_CPU_ALLOCS: "null",
        names.ANNOTATION_CPU_MANAGER_POLICY: json.dumps({"policy": "none"}),
        CPU_BASIC_INFO: json.dumps(info),
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
            "annotations": annotations,
        },
        "topologyPolicies": [policy],
        "zones": [_zone(machine, zone) for zone in machine.zones],
    }


def _zone(machine: Machine, zone: int) -> Json:
    amounts = {
        "cpu": str(machine.cores * machine.threads),
        "memory": f"{machine.memory_gib // len(machine.zones)}Gi",
    }
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in amounts.items()
    ]
    return {"name": f"node-{zone}", "type": "Node", "resources": resources}
