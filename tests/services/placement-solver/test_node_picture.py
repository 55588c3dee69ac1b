"""What people are shown of a node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.inventory import DeviceSlot
from berth.contracts.question import Holding, NodeAnswer
from berth.contracts.state import NodeResourceTopology, Taint
from berth.placement_solver.node_picture import PODS_MAX, picture
from berth.testing.builders import gpu_slots, pod

GI = 1 << 30


def cpus(count: int, zones: int = 2) -> str:
    """Cores of two threads, in as many zones."""
    cores = count // 2
    detail = [
        {"id": cpu, "core": cpu % cores, "socket": 0, "node": (cpu % cores) * zones // cores} for cpu in range(count)
    ]
    return json.dumps({"detail": detail})


def zone(number: int, cpu: str = "4", **more: Any) -> dict[str, Any]:
    resources = [{"name": name, "allocatable": text} for name, text in {"cpu": cpu, "memory": "8Gi", **more}.items()]
    return {"name": f"node-{number}", "type": "Node", "resources": resources}


def topology(**annotations: str) -> NodeResourceTopology:
    short = {"cpus": names.ANNOTATION_CPU_TOPOLOGY, "allocs": names.ANNOTATION_POD_CPU_ALLOCS}
    named = {short.get(name, name): text for name, text in {"cpus": cpus(8), **annotations}.items()}
    return NodeResourceTopology(name="n0", version=1, annotations=named, zones=[zone(0), zone(1)])


@pytest.fixture
def run(solving):
    run = solving()
    run.node("n0", cpu=8000)
    return run


def ask(run: Any, seen: NodeResourceTopology | None = None, name: str = "n0") -> NodeAnswer:
    found = picture(run.cluster, name, seen)
    assert decode(encode(found), NodeAnswer) == found
    return found


def status(cpuset: str = "", **zones: dict[str, str]) -> str:
    shares = [{"node": int(name.removeprefix("zone")), "resources": share} for name, share in zones.items()]
    return json.dumps({"cpuset": cpuset, "numaNodeResources": shares})


def test_a_node_that_nobody_knows(run) -> None:
    assert ask(run, name="nothing").outcome == "unknown"


def test_amounts_taints_and_state(run) -> None:
    taints = [Taint(key="a", value="b", effect="NoSchedule"), Taint(key="c", effect="NoExecute")]
    run.node("n0", cpu=8000, taints=taints)
    builder = pod("p").requests(cpu=1000, memory=GI)
    run.pod(builder.on("n0"))
    told = ask(run)
    assert (told.outcome, told.ready, told.cordoned) == ("known", True, False)
    assert told.taints == ["a=b:NoSchedule", "c:NoExecute"]
    assert (told.allocatable[names.CPU], told.free[names.CPU]) == (8000, 7000)
    assert [(each.holder, each.state, each.amounts) for each in told.pods] == [
        ("default/p", "bound", {names.CPU: 1000, names.MEMORY: GI})
    ]
    assert (told.devices, told.zones, told.own_cpus, told.problems) == ([], [], {}, [])


def test_each_device_has_its_holders(run) -> None:
    nic = DeviceSlot(kind="rdma", minor=0, numa_node=1, amounts={names.RDMA: 100})
    slots = [replace(gpu_slots(1)[0], numa_node=0), *gpu_slots(3, unhealthy=(2,))[1:], nic]
    run.devices("n0", slots)
    pods = [pod("a").share(40), pod("b").share(30), pod("whole").gpus(1)]
    run.pods(pods)
    run.round()
    run.bind(pods[0])
    told = ask(run)
    cards = [each for each in told.devices if each.kind == "gpu"]
    assert [(each.kind, each.minor, each.healthy) for each in told.devices] == [
        ("gpu", 0, True),
        ("gpu", 1, True),
        ("gpu", 2, False),
        ("rdma", 0, True),
    ]
    held = {holding.holder: holding.amounts[names.GPU_CORE] for card in cards for holding in card.holdings}
    assert held == {"default/a": 40, "default/b": 30, "default/whole": 100}
    assert {len(card.holdings) for card in cards[:2]} == {1, 2}
    assert cards[2].holdings == []
    assert {each.holder: each.state for each in told.pods} == {
        "default/a": "bound",
        "default/b": "decided",
        "default/whole": "decided",
    }


def test_a_device_that_is_held_and_not_reported_is_shown(run) -> None:
    run.devices("n0", gpu_slots(1))
    builder = pod("a").gpus(1)
    run.pod(builder)
    run.round()
    run.bind(builder)
    run.devices("n0", [])
    (card,) = ask(run).devices
    assert (card.minor, card.reported, card.healthy, card.holdings[0].holder) == (0, False, False, "default/a")


def test_zones_and_cores_with_who_holds_them(run) -> None:
    record = status("0,4", zone0={"cpu": "2", "memory": "1Gi"})
    run.pod(pod("own").requests(cpu=2000).annotation(names.ANNOTATION_RESOURCE_STATUS, record).on("n0"))
    allocs = [{"namespace": "x", "name": "static", "uid": "u", "cpuset": "2,6", "managedByKubelet": True}]
    seen = topology(allocs=json.dumps(allocs), **{"node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "7"})})
    told = ask(run, seen)
    assert [(each.id, each.amounts) for each in told.zones] == [
        (0, {"cpu": 4000, "memory": 8 * GI}),
        (1, {"cpu": 4000, "memory": 8 * GI}),
    ]
    assert [each.cores for each in told.zones] == [[[0, 4], [1, 5]], [[2, 6], [3, 7]]]
    assert told.zones[0].holdings == [Holding(holder="default/own", amounts={"cpu": 2000, "memory": GI})]
    assert told.zones[1].holdings == []
    assert told.own_cpus == {"default/own": "0,4", "x/static": "2,6"}
    assert told.kept_cpus == "7"
    assert (told.pods[0].cpus, told.pods[0].zones) == ("0,4", [0])


@pytest.mark.parametrize(
    ("seen", "field"),
    [
        (topology(cpus="?"), names.ANNOTATION_CPU_TOPOLOGY),
        (topology(allocs="?"), names.ANNOTATION_POD_CPU_ALLOCS),
        (replace(topology(), zones=[{"name": 1}]), "zones[0]"),
        (replace(topology(), zones=[zone(0, cpu="much")]), "zones[0].resources"),
        (replace(topology(), zones=[zone(at) for at in range(300)]), "zones[256]"),
    ],
)
def test_what_cannot_be_read_is_named(run, seen: NodeResourceTopology, field: str) -> None:
    told = ask(run, seen)
    assert any(field in problem.field for problem in told.problems)
    assert told.outcome == "known"


def test_zones_of_other_components_are_theirs(run) -> None:
    others = [
        {"name": "gpu-0", "type": "Device"},
        {"name": "node-x", "type": "Node"},
        {"name": "node-0", "type": "Rack"},
    ]
    assert [each.id for each in ask(run, replace(topology(cpus=""), zones=[*others, zone(4)])).zones] == [4]


@pytest.mark.parametrize("record", ["?", '{"cpuset":"0-99999999"}', '{"numaNodeResources":[{"node":"x"}]}'])
def test_a_record_that_cannot_be_read_names_its_pod(run, record: str) -> None:
    run.pod(pod("own").requests(cpu=2000).annotation(names.ANNOTATION_RESOURCE_STATUS, record).on("n0"))
    (problem,) = ask(run, topology()).problems
    assert problem.field.startswith("default/own metadata.annotations[scheduling.koordinator.sh/resource-status]")


def test_a_device_record_that_cannot_be_read_names_its_pod(run) -> None:
    run.pod(pod("blind").gpus(1).annotation(names.ANNOTATION_DEVICE_ALLOCATED, "?").on("n0"))
    (problem,) = ask(run).problems
    assert (problem.field, problem.message) == ("default/blind", "no record says which devices it holds")


def test_there_may_be_more_pods_than_an_answer_has_place_for(run) -> None:
    for number in range(PODS_MAX + 3):
        run.pod(pod(f"p{number}").on("n0"))
    told = ask(run)
    assert (len(told.pods), told.pods_left_out) == (PODS_MAX, 3)
