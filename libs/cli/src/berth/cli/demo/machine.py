"""A machine with NUMA nodes, cards, and NICs that have virtual functions, and the pods that ask for parts of it."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from berth.contracts import names
from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.generate.mixed import Machine
from berth.simcluster.generate.mixed.nodes import manifests
from berth.simcluster.store.objects import Json

NAME: Final = "box"
BOX: Final = "demo.berth.sh/box"
"""Label and taint of the machine."""
CPUS: Final = 4
"""How many CPUs the pod with CPUs of its own asks for."""
CARDS: Final = 4
ILL: Final = CARDS - 1
"""The minor of the card that falls ill; the last ones are taken last."""
FAULT: Final = {"type": "Healthy", "status": "False", "reason": "Xid79", "message": "GPU has fallen off the bus"}
_GIB: Final = 1 << 30
_MACHINE: Final = Machine(
    name="box",
    weight=0,
    zones=(0, 1),
    cores=8,
    memory_gib=128,
    vendor="nvidia",
    model="A10",
    cards=CARDS,
    amounts={names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 24 * _GIB},
    nics=2,
    functions=2,
)


class Inside(NamedTuple):
    """The objects of the machine, a pod with CPUs of its own, one with a card and a virtual function beside it, and one
    that needs all the other cards."""

    objects: list[Json]
    own: Json
    beside: Json
    rest: Json


def inside(namespace: str, zone: str, **pod: Any) -> Inside:
    """All of it; `pod` are settings of every pod."""
    node, *others = manifests(_MACHINE, NAME, zone=zone)
    node["metadata"]["labels"][BOX] = "true"
    node["spec"] = {**node.get("spec", {}), "taints": [{"key": BOX, "value": "true", "effect": "NoSchedule"}]}

    def asking(name: str, request: PodRequest, notes: dict[str, Json], more: dict[str, str] | None = None) -> Json:
        manifest = pod_manifest(name, request, namespace=namespace, **pod)
        manifest["metadata"]["annotations"] = {key: json.dumps(note) for key, note in notes.items()}
        manifest["spec"]["nodeSelector"] = {BOX: "true"}
        manifest["spec"]["tolerations"] = [{"key": BOX, "operator": "Exists"}]
        resources = manifest["spec"]["containers"][0]["resources"]
        for part in ("requests", "limits"):
            resources[part] = {**resources[part], **(more or {})}
        return manifest

    own = asking(
        "pinned",
        PodRequest(1000 * CPUS, 8_192),
        {
            names.ANNOTATION_RESOURCE_SPEC: {"requiredCPUBindPolicy": "FullPCPUs"},
            names.ANNOTATION_NUMA_SPEC: {"numaTopologyPolicy": "SingleNUMANode"},
        },
    )
    own["metadata"]["labels"] |= {names.LABEL_QOS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"}
    beside = asking(
        "sender",
        PodRequest(2_000, 8_192, 1),
        {
            names.ANNOTATION_DEVICE_JOINT: {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
            names.ANNOTATION_DEVICE_HINT: {"rdma": {"vfSelector": {}}},
        },
        {names.RDMA: "1"},
    )
    return Inside([node, *others], own, beside, asking("patient", PodRequest(2_000, 8_192, CARDS - 1), {}))


def with_card(device: Json, minor: int, *, fault: dict[str, str] | None) -> Json:
    """The Device object with that card ill, or well again."""
    changed: Json = json.loads(json.dumps(device))
    for entry in changed["spec"]["devices"]:
        if (entry["type"], entry["minor"]) == ("gpu", minor):
            entry["health"] = fault is None
            entry["conditions"] = [] if fault is None else [fault]
    return changed
