"""What is within nodes, and what asks for it: CPUs and NUMA nodes, cards of several vendors, NICs with functions
FPGAs, partitions; and how all that changes: CPUs that go offline, NUMA nodes that vanish, CPUs kept from pods,
cards that fail, heal, are swapped or cordoned, nodes that register anew, records that nobody can read.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.simulation.workload import NAMESPACE, WATCHED_NODE, ZONES, Change, Create, Delete, Json, Place, Size, Timed

from berth.contracts import names
from berth.contracts.inventory import NPU_TEMPLATES
from berth.rules.cpus.cpuset import format_cpuset
from berth.simcluster.generate.mixed.machines import Machine
from berth.simcluster.generate.mixed.nodes import manifests
from berth.simcluster.kubelet import DURATION

GIB: Final = 1 << 30
_CARD: Final = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 16 * GIB}
_CHIP: Final = {
    names.NPU_CORE: 8,
    names.NPU_CPU: 7,
    names.NPU_DVPP: 100,
    names.GPU_MEMORY_RATIO: 100,
    names.GPU_MEMORY: 24 * GIB,
}
MACHINES: Final = (
    Machine("t4", 1, (0, 1), 4, 64, "nvidia", "T4", 4, _CARD, nics=2, functions=2),
    Machine("mlu", 1, (0, 2), 4, 64, "cambricon", "MLU370", 2, _CARD, nics=1, functions=3, fpgas=2),
    Machine("linked", 1, (0, 1), 4, 64, "nvidia", "V100", 4, _CARD, nics=2, functions=1),
    Machine("npu", 1, (0, 1), 4, 64, "huawei", "Ascend-310P3", 2, _CHIP, nics=1, functions=1),
)
"""In turns. The linked ones give out their cards in pairs, or one of the first two alone."""


def _size(cores: int, cpus: int, dvpp: int, memory: str) -> dict[str, str]:
    return {names.NPU_CORE: f"{cores}", names.NPU_CPU: f"{cpus}", names.NPU_DVPP: f"{dvpp}", names.GPU_MEMORY: memory}


LINKED: Final = 2
PARTITIONS: Final = {"1": [{"minors": [0]}, {"minors": [1]}], "2": [{"minors": [0, 1]}, {"minors": [2, 3]}]}
HOME: Final[Json] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
SIZES: Final[tuple[Json, ...]] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NPU_TEMPLATES.partition("/")[0]}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": dict(zip(("namespace", "name"), NPU_TEMPLATES.split("/"), strict=True)),
        "data": {
            "data.yaml": json.dumps(
                {
                    "huawei-Ascend-310P3": {
                        "vir01": _size(1, 1, 12, "3Gi"),
                        "vir02": _size(2, 2, 25, "6Gi"),
                        "vir04": _size(4, 4, 50, "12Gi"),
                    }
                }
            )
        },
    },
)
"""The sizes that chips may be cut to."""
TOPOLOGY: Final = "NodeResourceTopology"
STRANGERS_LEAVE_S: Final = 60.0
STAY_FROM: Final = 0.6
"""Of those who come after such a part of the run some stay, so that others wait when it is over."""
UNREADABLE: Final = '{"cpuset":"0-'

Asks = tuple[dict[str, str], dict[str, Any], str]
"""Amounts, annotations, QoS class."""


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes of each kind; the one with an agent has no more objects than its Node."""
    made: list[Json] = [dict(HOME), *SIZES]
    for number in range(size.nodes):
        objects = machine(number, kept=rng.choice(("", "0", "0-1")))
        made += objects[:1] if objects[0]["metadata"]["name"] == WATCHED_NODE else objects
    return made


def whole_cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes of each kind, none of which has an agent of Berth's."""
    return [dict(HOME), *SIZES, *(each for number in range(size.nodes) for each in machine(number))]


def machine(number: int, kept: str = "") -> list[Json]:
    """A Node, its Device and its topology; `kept` are CPUs that its reservation keeps from pods."""
    name, kind = f"node-{number}", number % len(MACHINES)
    made = manifests(MACHINES[kind], name, zone=ZONES[number % len(ZONES)], index=number)
    node, device, topology = made
    if kind == LINKED:
        device["metadata"]["labels"][names.LABEL_GPU_PARTITION_POLICY] = "Honor"
        device["metadata"]["annotations"] = {names.ANNOTATION_GPU_PARTITIONS: json.dumps(PARTITIONS)}
    topology["metadata"]["annotations"] |= reservation(kept)
    return [node, device, topology]


def reservation(kept: str) -> dict[str, Any]:
    """The annotation that keeps these CPUs from pods; without any it is taken away."""
    return {names.ANNOTATION_NODE_RESERVATION: json.dumps({"reservedCPUs": kept}) if kept else None} if kept else {}


# --- who asks for it --------------------------------------------------------------------------------------------------


def own_cpus(rng: random.Random) -> Asks:
    """CPUs of its own, by some bind policy and exclusive policy."""
    spec: dict[str, str] = {}
    bind = rng.choice(("", "FullPCPUs", "SpreadByPCPUs"))
    if bind:
        spec[rng.choice(("preferredCPUBindPolicy", "requiredCPUBindPolicy"))] = bind
    if rng.random() < 0.3:
        spec["preferredCPUExclusivePolicy"] = rng.choice(("PCPULevel", "NUMANodeLevel"))
    cpus = rng.choice((2, 2, 4))
    notes = {names.ANNOTATION_RESOURCE_SPEC: spec} if spec else {}
    if rng.random() < 0.3:
        notes |= numa(rng)
    return amounts(cpus), notes, rng.choice(("LSR", "LSR", "LSE"))


def numa(rng: random.Random) -> dict[str, Any]:
    """A NUMA policy."""
    spec: dict[str, str] = {"numaTopologyPolicy": rng.choice(("SingleNUMANode", "Restricted", "BestEffort"))}
    if rng.random() < 0.2:
        spec["singleNUMANodeExclusive"] = "Required"
    return {names.ANNOTATION_NUMA_SPEC: spec}


def in_numa_nodes(rng: random.Random) -> Asks:
    """Amounts of NUMA nodes."""
    return amounts(rng.choice((1, 2, 3, 5)), rng.choice((2, 8, 20))), numa(rng), "LS"


def shared_nic(rng: random.Random) -> Asks:
    """A part of a NIC."""
    return amounts(1) | {names.RDMA: rng.choice(("25", "50"))}, {}, ""


def function(rng: random.Random) -> Asks:
    """A virtual function of a NIC, and little of the NIC."""
    return amounts(1) | {names.RDMA: "5"}, {names.ANNOTATION_DEVICE_HINT: {"rdma": {"vfSelector": {}}}}, ""


def fpga(rng: random.Random) -> Asks:
    """An FPGA."""
    return amounts(1) | {names.FPGA: "100"}, {}, ""


def cards(rng: random.Random) -> Asks:
    """Whole cards, or a part of one."""
    percent = str(rng.choice((30, 50, 100, 100, 200, 200, 400)))
    return amounts(1) | {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent}, {}, ""


def cards_and_nic(rng: random.Random) -> Asks:
    """Cards and NICs that lie close together."""
    joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": rng.choice(("", "SamePCIe"))}
    asked = {names.KOORD_GPU: rng.choice(("100", "200")), names.RDMA: "20"}
    notes: dict[str, Any] = {names.ANNOTATION_DEVICE_JOINT: joint}
    if rng.random() < 0.3:
        notes[names.ANNOTATION_DEVICE_HINT] = {"rdma": {"vfSelector": {}}}
    return amounts(1) | asked, notes, ""


def chips(rng: random.Random) -> Asks:
    """A whole chip, or a part of one that is cut to size."""
    asked = rng.choice(
        (
            {names.NPU_CORE: "8", names.GPU_MEMORY_RATIO: "100"},
            {names.GPU_SHARED: "1", **_size(1, 1, 12, "3Gi")},
            {names.GPU_SHARED: "1", **_size(2, 2, 25, "6Gi")},
            {names.GPU_SHARED: "1", **_size(4, 4, 50, "12Gi")},
            {names.GPU_SHARED: "1", names.GPU_MEMORY_RATIO: "30"},
        )
    )
    return amounts(1) | asked, {}, ""


def plain(rng: random.Random) -> Asks:
    """Cpu and memory."""
    return amounts(rng.choice((1, 2)), rng.choice((1, 4))), {}, ""


SHAPES: Final[Mapping[Callable[[random.Random], Asks], int]] = {
    own_cpus: 5,
    in_numa_nodes: 3,
    shared_nic: 1,
    function: 3,
    fpga: 1,
    cards: 4,
    cards_and_nic: 2,
    chips: 3,
    plain: 1,
}
"""With the weight of each."""


def amounts(cpus: int, memory_gib: int = 1) -> dict[str, str]:
    """Of cpu and memory."""
    return {"cpu": str(cpus), "memory": f"{memory_gib}Gi"}


def pod(name: str, asks: Asks, notes: Mapping[str, str] = {}, scheduler: str = names.SCHEDULER_NAME) -> Json:
    """A pod that asks for this."""
    requests, said, qos = asks
    texts = {key: json.dumps(value) for key, value in said.items()}
    meta: Json = {"name": name, "namespace": NAMESPACE, "annotations": {**texts, **notes}}
    if qos:
        meta["labels"] = {names.LABEL_QOS: qos}
    container = {"name": "main", "image": "work", "resources": {"requests": requests, "limits": requests}}
    spec: Json = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def crowd(
    rng: random.Random,
    size: Size,
    shapes: Mapping[Callable[[random.Random], Asks], int] = SHAPES,
    *,
    prefix: str = "pod",
) -> list[Timed]:
    """Pods of these shapes, more than there is capacity for; they end, or are deleted, and others take their
    place."""
    done: list[Timed] = []
    drawn = rng.choices(list(shapes), list(shapes.values()), k=size.singles)
    for number, shape in enumerate(drawn):
        at_s, name = rng.uniform(3.0, size.end_s), f"{prefix}-{number}"
        notes = {DURATION: f"{rng.uniform(5, 25):.1f}s"} if rng.random() < 0.7 else {}
        done.append(Timed(at_s, Create(pod(name, shape(rng), notes))))
        if not notes and (at_s < size.end_s * STAY_FROM or rng.random() < 0.5):
            done.append(Timed(at_s + rng.uniform(3.0, 25.0), Delete("Pod", name, rng.choice((0, 30)))))
    return done


# --- what changes under them ------------------------------------------------------------------------------------------


def changes(rng: random.Random, size: Size) -> list[Timed]:
    """Each node changes now and then; that with an agent by what the agent finds, and by what users write on it."""
    done: list[Timed] = []
    for number in range(size.nodes):
        name, at_s = f"node-{number}", 8.0
        while (at_s := at_s + rng.uniform(2.0, 12.0)) < size.end_s:
            kinds = [cordoned] if name == WATCHED_NODE else [laid_out_otherwise, kept, ill, swapped, cordoned, anew]
            back_s = at_s + rng.choice((0.5, 4.0, 14.0)) * rng.uniform(0.5, 1.5)
            done += rng.choice(kinds)(rng, number, at_s, back_s)
            at_s = back_s
    return done


def laid_out_otherwise(rng: random.Random, number: int, at_s: float, back_s: float) -> list[Timed]:
    """A core, or a NUMA node, is not there for a while."""
    whole = machine(number)[2]
    detail = json.loads(whole["metadata"]["annotations"][names.ANNOTATION_CPU_TOPOLOGY])["detail"]
    zone = MACHINES[number % len(MACHINES)].zones[-1]
    if rng.random() < 0.5:
        left, zones = [each for each in detail if each["node"] != zone], whole["zones"][:-1]
    else:
        core = rng.randrange(8)
        left, zones = [each for each in detail if each["core"] != core], whole["zones"]
    text = json.dumps({"detail": left})
    return [
        Timed(at_s, _topology(number, {names.ANNOTATION_CPU_TOPOLOGY: text}, zones)),
        Timed(
            back_s, _topology(number, {names.ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}, whole["zones"])
        ),
    ]


def kept(rng: random.Random, number: int, at_s: float, back_s: float) -> list[Timed]:
    """Other CPUs are kept from pods from now on, or none."""
    cpus = rng.sample(range(16), rng.choice((0, 1, 2, 4)))
    text = json.dumps({"reservedCPUs": format_cpuset(cpus)}) if cpus else None
    return [Timed(at_s, _topology(number, {names.ANNOTATION_NODE_RESERVATION: text}))]


def ill(rng: random.Random, number: int, at_s: float, back_s: float) -> list[Timed]:
    """A device is ill for a while."""
    devices = machine(number)[1]["spec"]["devices"]
    which = rng.randrange(len(devices))
    worn = [{**each, "health": place != which} for place, each in enumerate(devices)]
    return [Timed(at_s, _devices(number, worn)), Timed(back_s, _devices(number, devices))]


def swapped(rng: random.Random, number: int, at_s: float, back_s: float) -> list[Timed]:
    """A card is another one from now on, under the same minor; it is away meanwhile, or nobody has seen that."""
    devices = machine(number)[1]["spec"]["devices"]
    which = rng.randrange(len([each for each in devices if each["type"] == "gpu"]))
    away = [each for place, each in enumerate(devices) if place != which]
    other = [
        {**each, "id": f"{each['id']}-{int(back_s)}"} if place == which else each for place, each in enumerate(devices)
    ]
    gone = [Timed(at_s, _devices(number, away))] if rng.random() < 0.3 else []
    return [*gone, Timed(back_s, _devices(number, other))]


def cordoned(rng: random.Random, number: int, at_s: float, back_s: float) -> list[Timed]:
    """A device is kept out of use by hand for a while."""
    device = rng.choice(("gpu/0", "gpu/1", "rdma/0"))

    def note(text: str | None) -> Change:
        return Change("Node", f"node-{number}", {"metadata": {"annotations": {names.ANNOTATION_DEVICE_CORDON: text}}})

    return [Timed(at_s, note(device)), Timed(back_s, note(None))]


def anew(rng: random.Random, number: int, at_s: float, back_s: float) -> list[Timed]:
    """A kubelet registers its node anew."""
    name = f"node-{number}"
    gone = [Timed(at_s, Delete(kind, name, 0)) for kind in ("Device", TOPOLOGY, "Node")]
    return [*gone, *(Timed(back_s, Create(each)) for each in machine(number))]


def _topology(number: int, notes: Mapping[str, str | None], zones: list[Json] | None = None) -> Change:
    patch: Json = {"metadata": {"annotations": dict(notes)}}
    return Change(TOPOLOGY, f"node-{number}", patch | ({"zones": zones} if zones is not None else {}))


def _devices(number: int, devices: list[Json]) -> Change:
    return Change("Device", f"node-{number}", {"spec": {"devices": devices}})


def unread(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of another scheduler of which nobody can read which CPUs they have, or which devices."""
    done: list[Timed] = []
    for number in range(size.strangers):
        at_s = rng.uniform(3.0, size.end_s)
        node = f"node-{rng.randrange(size.nodes)}"
        lasts_s = min(rng.uniform(10.0, 50.0), size.end_s + STRANGERS_LEAVE_S - at_s)
        notes = {DURATION: f"{lasts_s:.1f}s"}
        if rng.random() < 0.7:
            asks: Asks = (amounts(2), {}, "LSR")
            notes[names.ANNOTATION_RESOURCE_STATUS] = UNREADABLE
        else:
            asks = (amounts(1) | {names.RDMA: "25"}, {}, "")
        made = pod(f"foreign-{number}", asks, notes, scheduler="other")
        made["spec"]["nodeName"] = node
        done.append(Timed(at_s, Place(made)))
    return done


# --- runs -------------------------------------------------------------------------------------------------------------


def draw(rng: random.Random, size: Size) -> list[Timed]:
    """All of it."""
    return _sorted([*crowd(rng, size), *changes(rng, size), *unread(rng, size)])


def lasting(rng: random.Random, size: Size) -> list[Timed]:
    """The crowd; each node loses CPUs early, and most of the run lies before it has them again."""
    done = crowd(rng, size, {own_cpus: 3, plain: 1})
    for number in range(size.nodes):
        at_s = rng.uniform(5.0, 10.0)
        done += laid_out_otherwise(rng, number, at_s, at_s + rng.uniform(50.0, 60.0))
    return _sorted(done)


def cards_alone(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of cards, of which each node has one swapped for another early."""
    done = crowd(rng, size, {cards: 1})
    for number in range(size.nodes):
        at_s = rng.uniform(4.0, 12.0)
        done += swapped(rng, number, at_s, at_s + 0.5)
    return _sorted(done)


def beside(rng: random.Random, size: Size) -> list[Timed]:
    """In some runs nodes of an ordinary cluster show their CPUs, of which some pods have some as their own."""
    if rng.random() < 0.6:
        return []
    shown = [number for number in range(1, size.nodes) if rng.random() < 0.8]
    done = [Timed(0.1, Create(machine(number)[2])) for number in shown]
    for number in rng.sample(shown, min(2, len(shown))):
        at_s = rng.uniform(10.0, size.end_s)
        done += rng.choice((laid_out_otherwise, kept))(rng, number, at_s, at_s + rng.uniform(2.0, 30.0))
    return done + crowd(rng, size._replace(singles=12), {own_cpus: 2, in_numa_nodes: 1}, prefix="own")


def _sorted(done: list[Timed]) -> list[Timed]:
    return sorted(done, key=lambda timed: timed.at_s)
