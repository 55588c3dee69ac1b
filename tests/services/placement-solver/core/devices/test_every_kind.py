"""Devices of every kind, through the whole solver: chosen, verified, committed, bound and read back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.grants import COUNT, VF, device, function
from berth.contracts.inventory import CardPartition, DeviceSlot
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Grant
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import DeviceContainer, Reservation
from berth.placement_solver.core import explain
from berth.testing.builders import (
    PodBuilder,
    allocated,
    gpu_grant,
    gpu_slots,
    nic_slots,
    node_topology,
    pod,
    with_places,
)
from berth.transaction.claims import of_decision

JOINT = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}


def note(builder: PodBuilder, name: str, content: Any) -> PodBuilder:
    return builder.annotation(name, json.dumps(content))


def hinted(builder: PodBuilder, **hints: Any) -> PodBuilder:
    return note(builder, names.ANNOTATION_DEVICE_HINT, hints)


def wants_function(name: str, percent: int = 1) -> PodBuilder:
    return hinted(pod(name).requests({names.RDMA: percent}), rdma={"vfSelector": {}})


def machine(run: Any, name: str = "n", gpus: int = 8, nics: int = 4, **fields: Any) -> list[DeviceSlot]:
    """A node with two GPUs and a NIC on each PCIe root."""
    run.node(name)
    slots = [*with_places(gpu_slots(gpus), per_root=2), *nic_slots(nics)]
    run.devices(name, slots, **fields)
    return slots


def granted(run: Any, name: str) -> list[tuple[str, str]]:
    (claim,) = run.cluster.book.claims_of(("default", name))
    return [(grant.kind, grant.id) for grant in claim.grants]


def message(solution: Any) -> str:
    (refusal,) = solution.refusals
    return explain.message(refusal.reasons, 1)


# --- shares of RDMA devices and FPGAs ---------------------------------------------------------------------------------


def test_an_rdma_device_is_shared_by_percent_and_the_fullest_is_taken(solving: type[Any]) -> None:
    run = solving()
    machine(run, gpus=0, nics=2)
    run.pods([pod(name).requests({names.RDMA: percent}) for name, percent in (("a", 60), ("b", 30), ("c", 100))])
    assert set(run.nodes_of(run.round())) == {"a", "b", "c"}
    assert granted(run, "c") != granted(run, "a") == granted(run, "b")
    run.pod(pod("d").requests({names.RDMA: 20}))
    assert message(run.round()) == (
        "0/1 nodes are available: 1 Insufficient rdma devices. To repair: free RDMA device 0 on node n."
    )


def test_what_is_asked_of_several_kinds_is_given_of_all_or_not_at_all(solving: type[Any]) -> None:
    run = solving()
    slots = machine(run)
    run.devices("n", [*slots, DeviceSlot(kind="fpga", minor=3, amounts={names.FPGA: 100})])
    builder = pod("a").requests({names.FPGA: 50, names.RDMA: 200, names.NVIDIA_GPU: 1})
    run.pod(builder)
    run.round()
    assert granted(run, "a") == [("fpga", "3"), ("gpu", "0"), ("rdma", "0"), ("rdma", "1")]
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    run.bind(builder)
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))
    run.pod(pod("b").requests({names.FPGA: 60, names.RDMA: 100}))
    assert "1 Insufficient fpga devices" in message(run.round())
    run.delete_pod("a")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"b": "n"}


def test_a_node_without_such_devices_is_no_node_for_it(solving: type[Any]) -> None:
    run = solving()
    machine(run, nics=0)
    run.pod(pod("a").requests({names.RDMA: 1}))
    (refusal,) = run.round().refusals
    assert [(each.message, each.repair) for each in refusal.reasons] == [
        ("Insufficient rdma devices", "add a node with capacity for it")
    ]


def test_a_device_that_is_not_healthy_is_given_to_nobody(solving: type[Any]) -> None:
    run = solving()
    slots = machine(run, gpus=0, nics=1)
    run.devices("n", [msgspec.structs.replace(slots[0], healthy=False)])
    run.pod(wants_function("a"))
    assert "Insufficient rdma devices" in message(run.round())


def test_who_holds_devices_of_which_nobody_knows_blocks_them(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pod(pod("other").requests({names.RDMA: 1}).on("n").annotation(names.ANNOTATION_DEVICE_ALLOCATED, "{"))
    run.pod(wants_function("a"))
    assert "1 node(s) hold pods whose devices are unknown" in message(run.round())


# --- virtual functions ------------------------------------------------------------------------------------------------


def test_each_virtual_function_is_given_out_once(solving: type[Any]) -> None:
    run = solving()
    machine(run, gpus=0, nics=2)
    builders = [wants_function(f"p{number}") for number in range(5)]
    run.pods(builders)
    solution = run.round()
    given_out = [grant.id for placed in solution.placements for grant in placed.claim.grants if grant.kind == VF]
    assert sorted(given_out) == ["0000:00:00.1", "0000:00:00.2", "0000:01:00.1", "0000:01:00.2"]
    assert message(solution).startswith("0/1 nodes are available: 1 Insufficient rdma devices. To repair: free ")
    assert "a virtual function of RDMA device" in message(solution)
    placed = solution.placements[0]
    run.bind(next(each for each in builders if each.build(0).name == placed.candidate.name[1]))
    run.delete_pod(placed.candidate.name[1])
    run.cluster.now += 1000
    assert len(run.round().placements) == 1


def test_a_virtual_function_is_bound_and_read_back(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    builder = wants_function("a")
    run.pod(builder)
    run.round()
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    assert decision.allocation.grants == [
        device("rdma", 0, {names.RDMA: 1}),
        Grant(kind=VF, id="0000:00:00.1", amounts={COUNT: 1}, extension="rdma/0"),
    ]
    assert json.loads(decision.annotations[names.ANNOTATION_DEVICE_ALLOCATED]) == {
        "rdma": [
            {
                "minor": 0,
                "resources": {names.RDMA: "1"},
                "id": "0000:00:00.0",
                "extension": {"vfs": [{"minor": -1, "busID": "0000:00:00.1"}]},
            }
        ]
    }
    run.bind(builder)
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))


def test_containers_that_ask_for_different_devices_are_told_apart_at_the_bind(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    asks = {"train": {names.NVIDIA_GPU: 2}, "serve": {names.NVIDIA_GPU: 1}, "log": {}}
    containers = [DeviceContainer(name=name, requests=requests) for name, requests in asks.items()]
    fetch = DeviceContainer(name="fetch", init=True)
    several = pod("a").gpus(3).template(device_containers=[*containers, fetch])
    alike = pod("b").gpus(1).template(device_containers=[containers[1], fetch])
    run.pods([several, alike, pod("c").gpus(1)])
    assert len(run.round().placements) == 3
    notes = {name: run.cluster.book.ledger.decisions["default", name].decision.annotations for name in "abc"}
    whole = json.loads(notes["a"][names.ANNOTATION_DEVICE_ALLOCATED])
    assert json.loads(notes["a"][names.ANNOTATION_CONTAINER_DEVICES]) == {
        "train": {"gpu": whole["gpu"][:2]},
        "serve": {"gpu": whole["gpu"][2:]},
        "fetch": whole,
    }
    assert all(names.ANNOTATION_CONTAINER_DEVICES not in notes[name] for name in "bc")
    run.bind(several)
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(run.cluster.book.ledger.decisions["default", "a"].decision))


def test_a_reservation_has_no_containers_to_tell_apart(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    asks = [DeviceContainer(name=name, requests={names.NVIDIA_GPU: 1}) for name in ("a", "b")]
    template = pod("t").gpus(2).template(device_containers=asks).build(1).template
    run.reservation(Reservation(name="r", uid="r", version=1, template=template, created="2024-01-01T00:00:00Z"))
    (placed,) = run.round().placements
    assert placed.candidate.is_reservation
    decision = run.cluster.book.ledger.decisions["", "r"].decision
    assert names.ANNOTATION_DEVICE_ALLOCATED in decision.annotations
    assert names.ANNOTATION_CONTAINER_DEVICES not in decision.annotations


def test_the_verifier_sees_a_virtual_function_that_is_given_twice_or_is_of_another_device(solving: type[Any]) -> None:
    run = solving()
    machine(run, gpus=0, nics=2)
    run.pods([wants_function("a"), wants_function("b")])
    solution, trial = run.solve()
    trial.undo()
    one, two = (placement.claim for placement in solution.placements)
    assert run.verifier.check([one, two]) == []
    twice = run.verifier.check([one, two._replace(grants=one.grants)])
    assert twice == [f"node n: vf {one.grants[1].id} count: 2 claimed of 1"]
    interface = device("rdma", 0, {names.RDMA: 1})
    for wrong in (
        (interface,),
        (interface, function("0000:01:00.1", "rdma", 0)),
        (interface, function("0000:01:00.1", "rdma", 1)),
        (interface, function("0000:00:00.1", "rdma", 0), function("0000:00:00.2", "rdma", 0)),
        (interface, interface, function("0000:00:00.1", "rdma", 0)),
    ):
        assert run.verifier.check([one._replace(grants=wrong)]), wrong


def test_a_function_that_two_others_hold_is_free_once_both_are_gone(solving: type[Any]) -> None:
    run = solving()
    machine(run, gpus=0, nics=1)
    held = [device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.1", "rdma", 0)]
    for name in ("x", "y"):
        run.pod(wants_function(name).template(scheduler="other").on("n", held))
    (slot,) = run.cluster.nodes.devices.slots["rdma"][0]
    assert (slot.used, slot.busy) == ((2,), {"0000:00:00.1"})
    run.delete_pod("x")
    run.pods([wants_function("a"), wants_function("b")])
    solution = run.round()
    assert granted(run, solution.placements[0].candidate.name[1]) == [("rdma", "0"), ("vf", "0000:00:00.2")]
    assert len(solution.refusals) == 1
    run.delete_pod("y")
    (slot,) = run.cluster.nodes.devices.slots["rdma"][0]
    assert slot.busy == {"0000:00:00.2"}


# --- hints, side by side, partitions, shares --------------------------------------------------------------------------


def test_hints_say_which_and_how_many(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pods(
        [
            hinted(pod("all").requests({names.RDMA: 1}), rdma={"allocateStrategy": "ApplyForAll", "vfSelector": {}}),
            hinted(pod("three").requests({names.RDMA: 3}), rdma={"allocateStrategy": "RequestsAsCount"}),
            hinted(pod("second").requests({names.RDMA: 5}), rdma={"selector": {"matchLabels": {"number": "2"}}}),
            hinted(pod("near").gpus(2), gpu={"requiredTopologyScope": "PCIe"}),
        ]
    )
    assert len(run.round().placements) == 4
    assert [kind for kind, _ in granted(run, "all")] == ["rdma", "vf"] * 4
    assert [kind for kind, _ in granted(run, "three")] == ["rdma"] * 3
    assert granted(run, "second") == [("rdma", "2")]
    assert granted(run, "near") == [("gpu", "0"), ("gpu", "1")]
    run.pod(hinted(pod("wide").gpus(3), gpu={"requiredTopologyScope": "PCIe"}))
    assert "Insufficient Topology Scoped GPU Devices" in message(run.round())


@pytest.mark.parametrize(
    ("annotation", "content", "field"),
    [
        (names.ANNOTATION_DEVICE_HINT, {"rdma": {"allocateStrategy": "Most"}}, ".rdma.allocateStrategy"),
        (names.ANNOTATION_DEVICE_JOINT, {"deviceTypes": ["tpu"]}, ".deviceTypes[0]"),
        (names.ANNOTATION_GPU_PARTITION_SPEC, {"allocatePolicy": "Some"}, ".allocatePolicy"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_field(
    solving: type[Any], annotation: str, content: Any, field: str
) -> None:
    run = solving()
    machine(run)
    run.pods([note(pod("p").requests({names.RDMA: 1}), annotation, content), pod("plain").requests(cpu=1)])
    solution = run.round()
    assert run.nodes_of(solution) == {"plain": "n"}
    ((reason,),) = [refusal.reasons for refusal in solution.refusals]
    assert (reason.code, reason.field) == ("invalid", f"metadata.annotations[{annotation}]{field}")


def test_gpus_and_rdma_devices_lie_side_by_side_also_where_the_first_choice_fails(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    held = [device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.1", "rdma", 0)]
    other = [device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.2", "rdma", 0)]
    for name, grants in (("x", held), ("y", other)):
        run.pod(wants_function(name).template(scheduler="other").on("n", grants))
    run.pod(note(wants_function("a").gpus(2), names.ANNOTATION_DEVICE_JOINT, JOINT))
    solution = run.round()
    assert granted(run, "a") == [("gpu", "2"), ("gpu", "3"), ("rdma", "1"), ("vf", "0000:01:00.1")]
    claim = solution.placements[0].claim
    away = [*claim.grants[:2], device("rdma", 2, {names.RDMA: 1}), function("0000:02:00.1", "rdma", 2)]
    run.delete_pod("a")
    forged = claim._replace(name=("default", "b"), grants=tuple(away))
    builder = note(wants_function("b").gpus(2), names.ANNOTATION_DEVICE_JOINT, JOINT)
    forged = forged._replace(uid=run.pod(builder).uid)
    assert any("at different places" in text for text in run.verifier.check([forged]))


def test_one_interface_more_is_given_for_each_place(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    builder = note(wants_function("a").gpus(4), names.ANNOTATION_DEVICE_JOINT, JOINT)
    run.pod(builder)
    run.round()
    assert [each for each in granted(run, "a") if each[0] == "rdma"] == [("rdma", "0"), ("rdma", "1")]
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    run.bind(builder)
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))
    other = solving()
    machine(other)
    other.pod(builder.template(scheduler="other"))
    (read,) = other.cluster.book.claims_of(("default", "a"))
    assert sorted(map(str, read.grants)) == sorted(map(str, bound.grants))


@pytest.mark.parametrize(("count", "chosen"), [(1, "1"), (2, "23"), (4, "4567")])
def test_a_node_that_honours_partitions_gives_out_nothing_else(solving: type[Any], count: int, chosen: str) -> None:
    run = solving()
    run.node("n", labels={names.LABEL_GPU_MODEL: "H100", names.LABEL_GPU_PARTITION_POLICY: "Honor"})
    run.devices("n", gpu_slots(8))
    run.pod(pod("x").gpus(1).template(scheduler="other").on("n", [gpu_grant(0)]))
    run.pod(pod("a").gpus(count))
    solution = run.round()
    assert "".join(minor for _, minor in granted(run, "a")) == chosen
    claim = solution.placements[0].claim
    run.delete_pod("a")
    seen = run.pod(pod("b").gpus(count))
    broken = tuple(gpu_grant(minor) for minor in range(3, 3 + count)) if count > 1 else (gpu_grant(0),)
    assert run.verifier.check([claim._replace(name=("default", "b"), uid=seen.uid, grants=broken)])
    run.delete_pod("b")
    run.pods([pod("three").gpus(3), pod("eight").gpus(8)])
    texts = {refusal.candidate.name[1]: refusal.reasons[0].message for refusal in run.round().refusals}
    assert texts["three"] == "node(s) Unsupported number of GPU requests"
    assert texts["eight"] == "Insufficient Partitioned GPU Devices"


def test_the_table_of_the_device_goes_first_and_is_a_preference_unless_it_says_more(solving: type[Any]) -> None:
    run = solving()
    table = [CardPartition(minors=[1, 2], score=1), CardPartition(minors=[0, 3], score=9)]
    run.node("n", labels={names.LABEL_GPU_MODEL: "H100", names.LABEL_GPU_PARTITION_POLICY: "Honor"})
    run.devices("n", gpu_slots(4), partition_policy="Prefer", partitions=table)
    run.pods([pod("a").gpus(2)])
    run.round()
    assert granted(run, "a") == [("gpu", "0"), ("gpu", "3")], "the best score"
    run.pod(note(pod("b").gpus(2), names.ANNOTATION_GPU_PARTITION_SPEC, {"allocatePolicy": "Restricted"}))
    assert "Insufficient Partitioned GPU Devices" in message(run.round()), "only the best score is good enough"
    run.delete_pod("b")
    run.pod(pod("c").gpus(1))
    assert run.nodes_of(run.round()) == {"c": "n"}, "there is none of this size, and the table is a preference"


def test_a_share_is_divided_unevenly_over_what_others_have_left(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.devices("n", gpu_slots(2))
    for name, minor, percent in (("x", 0, 40), ("y", 1, 70)):
        run.pod(pod(name).share(percent).template(scheduler="other").on("n", [gpu_grant(minor, percent)]))
    wanted = {names.GPU_SHARED: 2, names.GPU_CORE: 90, names.GPU_MEMORY_RATIO: 90}
    builder = pod("a").requests(wanted).annotation(names.ANNOTATION_GPU_SPLIT, "uneven")
    run.pod(builder)
    run.round()
    (claim,) = run.cluster.book.claims_of(("default", "a"))
    assert [(grant.id, grant.amounts[names.GPU_CORE]) for grant in claim.grants] == [("0", 60), ("1", 30)]
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    run.bind(builder)
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))
    builder.template(scheduler="other")
    run.delete_pod("a")
    run.pod(builder)
    (read,) = run.cluster.book.claims_of(("default", "a"))
    assert read.grants == bound.grants


# --- reservations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "given_out"), [("Restricted", {"part"}), ("", {"part", "whole"})])
def test_a_restricted_reservation_gives_its_own_devices_alone(
    solving: type[Any], policy: str, given_out: set[str]
) -> None:
    run = solving()
    machine(run, gpus=0, nics=2)
    held = [device("rdma", 1, {names.RDMA: 2}), function("0000:01:00.1", "rdma", 1)]
    amounts: dict[str, int] = {names.RDMA: 2}
    here: dict[str, Any] = {"name": "r", "uid": "uid-r", "node": "n", "phase": "Available"}
    run.reservation(
        Reservation(
            **here,
            version=0,
            template=wants_function("t", 2).build(1).template,
            allocatable=amounts,
            annotations={names.ANNOTATION_DEVICE_ALLOCATED: allocated(held)},
        ),
        ReservedCapacity(
            **here,
            revision=1,
            amounts=amounts,
            owners=[ReservationOwner(label_selector=LabelSelector(match_labels={"of": "r"}))],
            allocate_once=False,
            usable=True,
            allocate_policy=policy,
        ),
    )
    must = json.dumps({"name": "r"})
    for builder in (wants_function("part"), hinted(pod("whole").requests({names.RDMA: 100}))):
        run.pod(builder.label("of", "r").annotation(names.ANNOTATION_RESERVATION_AFFINITY, must))
    run.pod(wants_function("stranger"))
    placed = run.nodes_of(run.round())
    assert set(placed) == given_out | {"stranger"}
    assert granted(run, "part") == [("rdma", "1"), ("vf", "0000:01:00.1")]
    assert ("vf", "0000:01:00.1") not in granted(run, "stranger")


# --- properties -------------------------------------------------------------------------------------------------------


def some_pods(seed: int) -> list[PodBuilder]:
    rng = random.Random(seed)
    zoned = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    makes = [
        lambda name: wants_function(name),
        lambda name: pod(name).requests({names.RDMA: rng.choice([10, 60, 100])}),
        lambda name: pod(name).gpus(rng.choice([1, 2])),
        lambda name: pod(name).share(rng.choice([30, 50])),
        lambda name: note(wants_function(name).gpus(1), names.ANNOTATION_DEVICE_JOINT, JOINT),
        lambda name: hinted(pod(name).requests({names.RDMA: 2}), rdma={"allocateStrategy": "RequestsAsCount"}),
        lambda name: pod(name).requests(cpu=2000).label(names.LABEL_QOS, "LSR"),
        lambda name: pod(name).requests(cpu=2000).gpus(1).label(names.LABEL_QOS, "LSE"),
        lambda name: note(pod(name).requests(cpu=rng.choice([1000, 3000])), names.ANNOTATION_NUMA_SPEC, zoned),
        lambda name: pod(name).requests(cpu=1500),
    ]
    return [rng.choice(makes)(f"p{number}") for number in range(8)]


def books(run: Any) -> Any:
    """What is held of devices, functions, CPUs and NUMA nodes."""
    nodes = run.cluster.nodes
    slots = {kind: [each for each in of[0] if any(each.total)] for kind, of in nodes.devices.slots.items()}
    return slots, nodes.cores.free_cpus(0), nodes.cores.zones(0).available, nodes.cores.status(0)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), data=st.data())
def test_books_are_the_same_in_whatever_order_they_are_read(solving: type[Any], seed: int, data: st.DataObject) -> None:
    run = solving()
    slots, topology = machine(run), node_topology(zones=2, reserved=(0,))
    run.topology("n", topology)
    empty = books(run)
    builders = some_pods(seed)
    run.pods(builders)
    placed = set(run.nodes_of(run.round()))
    bound = [builder for builder in builders if builder.build(0).name in placed]
    for builder in bound:
        run.bind(builder)
    fresh = solving()
    makers: list[Callable[[], object]] = [
        lambda: fresh.node("n"),
        lambda: fresh.devices("n", slots),
        lambda: fresh.topology("n", topology),
        *(partial(fresh.pod, builder) for builder in bound),
    ]
    for make in data.draw(st.permutations(makers)):
        make()
    assert books(fresh) == books(run)
    gone = data.draw(st.permutations(bound))
    for builder in gone:
        fresh.delete_pod(builder.build(0).name)
    assert books(fresh) == empty
