"""What people are shown of a node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from berth.contracts import names, subjects
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.grants import device, function
from berth.contracts.inventory import CardPartition, DeviceSlot
from berth.contracts.kube import LabelSelector, ReservationOwner, Taint
from berth.contracts.question import Holding, NodeAnswer
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Device, DeviceFunction, NodeResourceTopology, Reservation
from berth.contracts.topology import CoreCpus, NodeTopology, PinnedPod, ZoneCapacity
from berth.placement_solver.node_picture import PODS_MAX, picture
from berth.testing.builders import allocated, gpu_grant, gpu_slots, pod

GI = 1 << 30


TOPOLOGY = NodeTopology(
    node="n0",
    version=1,
    cores=[CoreCpus(zone=zone, cpus=[core, core + 4]) for zone, core in ((0, 0), (0, 1), (1, 2), (1, 3))],
    zones=[ZoneCapacity(zone=zone, amounts={"cpu": 4000, "memory": 8 * GI}) for zone in (0, 1)],
)


@pytest.fixture
def run(solving):
    run = solving()
    run.node("n0", cpu=8000)
    return run


def ask(run: Any, name: str = "n0") -> NodeAnswer:
    found = picture(run.cluster, name)
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


def test_a_device_says_why_it_is_ill(run) -> None:
    cordoned, ill = (
        replace(each, healthy=False, reason=reason)
        for each, reason in zip(gpu_slots(2), ("Cordoned", "Xid79"), strict=True)
    )
    run.devices("n0", [cordoned, ill])
    assert [each.reason for each in ask(run).devices] == ["Cordoned", "Xid79"]


def test_virtual_functions_have_their_holders(run) -> None:
    functions = [DeviceFunction(bus=f"0000:1f:00.{number}") for number in (2, 3)]
    run.devices("n0", [DeviceSlot(kind="rdma", minor=0, amounts={names.RDMA: 100}, functions=functions)])
    for name, bus in (("a", "0000:1f:00.3"), ("b", "0000:1f:00.7")):
        held = [device("rdma", 0, {names.RDMA: 1}), function(bus, "rdma", 0)]
        builder = pod(name).requests({names.RDMA: 1})
        builder.annotation(names.ANNOTATION_DEVICE_HINT, json.dumps({"rdma": {"vfSelector": {}}}))
        run.pod(builder.on("n0", held))
    (card,) = ask(run).devices
    assert [(each.bus, each.holder, each.reported) for each in card.functions] == [
        ("0000:1f:00.2", "", True),
        ("0000:1f:00.3", "default/a", True),
        ("0000:1f:00.7", "default/b", False),
    ]


def test_partitions_are_those_that_hold(run) -> None:
    assert (ask(run).partition_policy, ask(run).partitions) == ("", [])
    table = [CardPartition(minors=[0, 1], score=3, link="NVLink"), CardPartition(minors=[0])]
    run.devices("n0", gpu_slots(2), partition_policy="Honor", partitions=table)
    told = ask(run)
    assert told.partition_policy == "Honor"
    assert [(each.minors, each.score, each.link) for each in told.partitions] == [([0], 0, ""), ([0, 1], 3, "NVLink")]


def test_a_reservation_holds_what_its_users_have_left(run) -> None:
    run.devices("n0", gpu_slots(2))
    amounts = {names.NVIDIA_GPU: 1}
    here: dict[str, Any] = {"name": "r", "uid": "uid-r", "node": "n0", "phase": "Available"}
    note = {names.ANNOTATION_DEVICE_ALLOCATED: allocated([gpu_grant(0)])}
    template = pod("t").gpus(1).build(1).template
    owner = ReservationOwner(label_selector=LabelSelector(match_labels={"owner": "r"}))
    run.reservation(
        Reservation(**here, version=0, template=template, allocatable=amounts, annotations=note),
        ReservedCapacity(**here, revision=1, amounts=amounts, owners=[owner], allocate_once=False, usable=True),
    )
    assert [each.holder for each in ask(run).devices[0].holdings] == ["reservation/r"]
    builder = pod("user").gpus(1).label("owner", "r")
    run.pod(builder)
    run.round()
    told = ask(run)
    assert [each.holder for each in told.devices[0].holdings] == ["default/user"]
    assert {each.holder: each.message for each in told.pods}["default/user"] == "out of reservation/r"


def test_zones_and_cores_with_who_holds_them(run) -> None:
    pinned = [PinnedPod(uid="u", namespace="x", name="static", cpus="2,6"), PinnedPod(uid="v", cpus="3")]
    told_of = {"reserved": [2, 3, 6, 7], "pinned": pinned, "cpu_manager": "static", "policy": "Restricted"}
    run.topology("n0", replace(TOPOLOGY, **told_of))
    record = status("0,4", zone0={"cpu": "2", "memory": "1Gi"})
    builder = pod("own").label(names.LABEL_QOS, "LSR").template(priority=9500).requests(cpu=2000, memory=GI)
    run.pod(builder.annotation(names.ANNOTATION_RESOURCE_STATUS, record).on("n0"))
    told = ask(run)
    assert [(each.id, each.amounts) for each in told.zones] == [
        (0, {"cpu": 4000, "memory": 8 * GI}),
        (1, {"cpu": 4000, "memory": 8 * GI}),
    ]
    assert [each.free for each in told.zones] == [
        {"cpu": 2000, "memory": 7 * GI},
        {"cpu": 4000, "memory": 8 * GI},
    ]
    assert [each.cores for each in told.zones] == [[[0, 4], [1, 5]], [[2, 6], [3, 7]]]
    assert told.zones[0].holdings == [Holding(holder="default/own", amounts={"cpu": 2000, "memory": GI})]
    assert told.zones[1].holdings == []
    assert told.own_cpus == {"default/own": "0,4", "x/static": "2,6", "pod v": "3"}
    assert (told.kept_cpus, told.numa_policy, told.cpu_manager) == ("7", "Restricted", "static")
    assert (told.pods[0].cpus, told.pods[0].zones) == ("0,4", [0])


def test_what_a_decision_will_write_is_shown(run) -> None:
    run.topology("n0", TOPOLOGY)
    run.pod(pod("own").label(names.LABEL_QOS, "LSE").template(priority=9500).requests(cpu=2000))
    run.round()
    assert ask(run).own_cpus == {"default/own": "0,4"}


def test_sparse_zones_and_uneven_cores(run) -> None:
    cores = [CoreCpus(zone=4, cpus=[0, 1]), CoreCpus(zone=4, cpus=[2]), CoreCpus(zone=900, cpus=[5])]
    zones = [ZoneCapacity(zone=7, amounts={"memory": GI})]
    run.topology("n0", replace(TOPOLOGY, cores=cores, zones=zones))
    assert [(each.id, each.cores) for each in ask(run).zones] == [(4, [[0, 1], [2]]), (7, []), (900, [[5]])]


def test_faults_of_devices_and_topology_are_named(run) -> None:
    run.devices("n0", [], problems=[Problem(field="spec.devices", message="is odd")])
    run.topology("n0", replace(TOPOLOGY, problems=[Problem(field="zones[0]", message="is odd")]))
    assert [each.field for each in ask(run).problems] == ["spec.devices", "zones[0]"]


def test_what_waits_to_be_counted_is_named(run) -> None:
    for kind, seen in (("device", Device), ("noderesourcetopology", NodeResourceTopology)):
        run.state(
            subjects.named_key(kind, "n0"), seen(name="n0", version=99, **({"uid": "u"} if seen is Device else {}))
        )
    assert [each.field for each in ask(run).problems] == ["Device", "NodeResourceTopology"]


@pytest.mark.parametrize("record", ["?", '{"cpuset":"0-99999999"}', '{"numaNodeResources":[{"node":"x"}]}'])
def test_a_record_that_cannot_be_read_names_its_pod(run, record: str) -> None:
    builder = pod("own").label(names.LABEL_QOS, "LSR").template(priority=9500).requests(cpu=2000)
    run.pod(builder.annotation(names.ANNOTATION_RESOURCE_STATUS, record).on("n0"))
    (problem,) = ask(run).problems
    assert (problem.field, "which cores it holds" in problem.message) == ("default/own", True)


def test_a_device_record_that_cannot_be_read_names_its_pod(run) -> None:
    run.pod(pod("blind").gpus(1).annotation(names.ANNOTATION_DEVICE_ALLOCATED, "?").on("n0"))
    (problem,) = ask(run).problems
    assert (problem.field, "which GPUs it holds" in problem.message) == ("default/blind", True)
    run.node("n0", extended={names.NVIDIA_GPU: 2})
    found = ask(run)
    assert not found.problems, "kubelet has picked it"
    assert (found.allocatable[names.NVIDIA_GPU], found.free[names.NVIDIA_GPU]) == (2, 1)


def test_there_may_be_more_pods_than_an_answer_has_place_for(run) -> None:
    for number in range(PODS_MAX + 3):
        run.pod(pod(f"p{number}").on("n0"))
    told = ask(run)
    assert (len(told.pods), told.pods_left_out) == (PODS_MAX, 3)
