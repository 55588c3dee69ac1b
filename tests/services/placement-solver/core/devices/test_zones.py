"""Devices on the NUMA nodes where the rest of a pod lies: chosen together, and found wherever there are some."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.services.worlds.solver.cores import zoned

from berth.contracts import names
from berth.contracts.grants import CPU, VF, ZONE, device, function
from berth.contracts.inventory import DeviceSlot
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Grant
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.placement_solver.core import explain
from berth.placement_solver.core.devices.record import all_grants
from berth.rules.cpus.available import usable_cpus
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import read_request
from berth.rules.devices.slots import NoCapacity
from berth.rules.numa.exclusive import may_hold
from berth.testing.builders import GI, PodBuilder, gpu_grant, gpu_slots, nic_slots, node_topology, pod

SINGLE, RESTRICTED, BEST_EFFORT = "SingleNUMANode", "Restricted", "BestEffort"
JOINT = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
FUNCTION = {"rdma": {"vfSelector": {}}}


def on_zones(slots: Iterable[DeviceSlot], *zones: int) -> list[DeviceSlot]:
    """Each on one of these NUMA nodes, in turn, with a PCIe root of its own; -1: near to all."""
    return [
        structs.replace(slot, numa_node=zones[at % len(zones)], pcie=f"pci0000:{slot.minor:02x}")
        for at, slot in enumerate(slots)
    ]


def pinned(name: str, cpus: int) -> PodBuilder:
    return pod(name).requests(cpu=1000 * cpus).label(names.LABEL_QOS, "LSR")


def bound(name: str, grants: Iterable[Grant] = (), cpus: str = "") -> PodBuilder:
    """A pod of another scheduler on the node, with these devices and CPUs."""
    grants = list(grants)
    count = len(cpus.split(",")) if cpus else 0
    builder = pod(name).requests(cpu=1000 * count).template(scheduler="other").label(names.LABEL_QOS, "LSR")
    gpus = sum(grant.kind == "gpu" for grant in grants)
    if gpus:
        builder.gpus(gpus)
    if any(grant.kind == "rdma" for grant in grants):
        builder.requests({names.RDMA: 1}).annotation(names.ANNOTATION_DEVICE_HINT, json.dumps(FUNCTION))
    if cpus:
        builder.annotation(names.ANNOTATION_RESOURCE_STATUS, json.dumps({"cpuset": cpus}))
    return builder.on("n", grants)


def given_to(run: Any, name: str) -> tuple[list[str], list[str], list[str]]:
    """The GPUs, CPUs and NUMA nodes that a pod has."""
    (claim,) = run.cluster.book.claims_of(("default", name))
    return tuple([grant.id for grant in claim.grants if grant.kind == kind] for kind in ("gpu", CPU, ZONE))  # type: ignore[return-value]


def told(run: Any) -> str:
    (refusal,) = run.round().refusals
    return explain.message(refusal.reasons, 1)


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """Two NUMA nodes of four cores with two CPUs each, and two GPUs on each of them."""
    made = solving()
    made.node("n", cpu=16_000)
    made.topology("n", node_topology(zones=2))
    made.devices("n", on_zones(gpu_slots(4), 0, 1))
    return made


def test_cards_and_cores_lie_on_one_numa_node(run: Any) -> None:
    run.pod(bound("x", cpus="0,1,2,3,4"))
    run.pod(zoned(pinned("a", 4).gpus(2), SINGLE))
    run.round()
    assert given_to(run, "a") == (["1", "3"], ["8", "9", "10", "11"], ["1"])


def test_the_cards_decide_where_the_cores_are(run: Any) -> None:
    run.pod(bound("x", [gpu_grant(1)]))
    run.pods([zoned(pinned("a", 2).gpus(2), SINGLE), zoned(pod("share").requests(cpu=1).share(40), RESTRICTED)])
    run.round()
    assert given_to(run, "a") == (["0", "2"], ["0", "1"], ["0"])
    assert given_to(run, "share") == (["3"], [], ["1"])


@pytest.mark.parametrize(("policy", "is_placed"), [(SINGLE, False), (RESTRICTED, False), (BEST_EFFORT, True)])
def test_what_cannot_lie_together_is_refused_but_under_best_effort(run: Any, policy: str, is_placed: bool) -> None:
    run.pod(bound("x", [gpu_grant(0), gpu_grant(2)]))
    run.pod(bound("y", cpus="8,9,10,11,12,13,14,15"))
    run.pod(zoned(pinned("a", 2).gpus(1), policy))
    if is_placed:
        run.round()
        assert given_to(run, "a") == (["1"], ["0", "1"], ["0"])
    else:
        joint = "," if policy == SINGLE else " & "
        assert told(run) == (
            f"0/1 nodes are available: 1 Unaligned NUMA Hint cause cpu prefer [01] among [01]{joint}"
            "gpu prefer [10] among [10]. To repair: free GPU 2 of NUMA node 0 on node n."
        )


def test_a_nodes_policy_holds_for_pods_with_devices_too(run: Any) -> None:
    run.node("n", cpu=16_000, labels={names.LABEL_NUMA_POLICY: SINGLE})
    run.pods([pod("wide").requests(cpu=1000).gpus(3), pod("a").requests(cpu=1000).gpus(2), pod("b").gpus(1)])
    (refusal,) = run.round().refusals
    assert refusal.candidate.name[1] == "wide"
    assert given_to(run, "a")[0] == ["0", "2"]
    assert given_to(run, "b") == (["1"], [], [])


def test_devices_whose_place_is_unknown_align_with_nothing(run: Any) -> None:
    run.devices("n", gpu_slots(2))
    run.pod(zoned(pod("a").requests(cpu=1000).gpus(1), SINGLE))
    assert "1 Unsatisfied NUMA gpu" in told(run)
    run.delete_pod("a")
    run.pod(zoned(pod("b").requests(cpu=1000).gpus(1), BEST_EFFORT))
    assert run.nodes_of(run.round()) == {"b": "n"}


def test_too_few_devices_are_told_by_their_own_name(run: Any) -> None:
    run.pod(zoned(pod("a").requests(cpu=1000).gpus(5), SINGLE))
    assert "1 Insufficient gpu devices" in told(run)


def test_cards_with_interfaces_beside_them(run: Any) -> None:
    run.devices("n", [*on_zones(gpu_slots(4), 0, 1), *on_zones(nic_slots(4), 0, 1)])
    run.pod(bound("x", [device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.1", "rdma", 0)]))
    run.pod(bound("y", [device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.2", "rdma", 0)], "8,9,10,11,12,13"))
    builder = zoned(pinned("a", 3).gpus(1).requests({names.RDMA: 1}), SINGLE)
    builder.annotation(names.ANNOTATION_DEVICE_JOINT, json.dumps(JOINT))
    run.pod(builder.annotation(names.ANNOTATION_DEVICE_HINT, json.dumps(FUNCTION)))
    run.round()
    (claim,) = run.cluster.book.claims_of(("default", "a"))
    assert given_to(run, "a") == (["2"], ["0", "1", "2"], ["0"])
    assert [grant.id for grant in claim.grants if grant.kind == VF] == ["0000:02:00.1"]


def test_a_user_of_a_reservation_gets_its_card_and_cores_of_that_numa_node(run: Any) -> None:
    template = zoned(pinned("t", 2).gpus(1), SINGLE).build(1).template
    run.pod(bound("x", [gpu_grant(0), gpu_grant(2)]))
    run.reservation(Reservation(name="r", uid="uid-r", version=1, template=template))
    run.round()
    (reserving,) = run.cluster.book.claims_of(("", "r"))
    assert {(grant.kind, grant.id) for grant in reserving.grants} == {
        ("gpu", "1"),
        (CPU, "8"),
        (CPU, "9"),
        (ZONE, "1"),
    }
    decision = run.cluster.book.ledger.decisions["", "r"].decision
    seen = Reservation(
        name="r",
        uid="uid-r",
        version=1,
        template=template,
        annotations=decision.annotations,
        phase="Available",
        node="n",
        plan=decision.plan,
        allocatable=template.requests,
    )
    owner = ReservationOwner(label_selector=LabelSelector(match_labels={"app": "mine"}))
    capacity = ReservedCapacity(
        name="r", uid="uid-r", revision=1, phase="Available", node="n", usable=True, amounts=template.requests
    )
    run.reservation(seen, structs.replace(capacity, owners=[owner]))
    run.pod(zoned(pinned("a", 2).gpus(1), SINGLE).label("app", "mine"))
    run.round()
    (claim,) = run.cluster.book.claims_of(("default", "a"))
    assert claim.reservation == "uid-r"
    assert given_to(run, "a") == (["1"], ["8", "9"], ["1"])


def test_the_verifier_finds_devices_apart_from_the_rest(run: Any) -> None:
    run.pods([zoned(pinned("a", 2).gpus(1), SINGLE), zoned(pinned("b", 2).gpus(1), RESTRICTED)])
    solution, trial = run.solve()
    trial.undo()
    for placement in solution.placements:
        claim = placement.claim
        assert run.verifier.check([claim]) == []
        ((here,), _, (zone,)) = (
            [grant.minor for grant in claim.grants if grant.kind == kind] for kind in ("gpu", CPU, ZONE)
        )
        rest = tuple(grant for grant in claim.grants if grant.kind != "gpu")
        assert run.verifier.check([claim._replace(grants=(*rest, gpu_grant(1 - zone)))]), (here, zone)
    run.devices("n", [*on_zones(gpu_slots(3), 0, 1), *gpu_slots(4)[3:]])
    placeless = solution.placements[0].claim
    rest = tuple(grant for grant in placeless.grants if grant.kind != "gpu")
    assert run.verifier.check([placeless._replace(grants=(*rest, gpu_grant(3)))]) == [
        "default/a: was given gpu 3 under SingleNUMANode, of which nobody knows the NUMA node"
    ]


# --- whether there is a place -----------------------------------------------------------------------------------------


@st.composite
def asking(draw: st.DrawFn) -> tuple[PodBuilder, str, str]:
    """A pod with devices, its policy, and whether NUMA nodes are to be exclusive."""
    policy = draw(st.sampled_from([SINGLE, SINGLE, RESTRICTED, RESTRICTED, BEST_EFFORT]))
    exclusive = "Preferred" if policy == BEST_EFFORT else draw(st.sampled_from(["Required", "Preferred"]))
    builder = pod("a").requests(cpu=1000 * draw(st.integers(0, 4)), memory=draw(st.integers(0, 3)) * GI)
    spec = draw(st.sampled_from([{}, {"requiredCPUBindPolicy": "FullPCPUs"}]))
    builder.label(names.LABEL_QOS, draw(st.sampled_from(["LSR", ""])))
    builder.annotation(names.ANNOTATION_RESOURCE_SPEC, json.dumps(spec))
    kind = draw(st.sampled_from(["gpu", "share", "rdma", "both", "joint"]))
    if kind == "share":
        builder.share(60)
    elif kind != "rdma":
        builder.gpus(draw(st.integers(1, 3)))
    if kind not in ("gpu", "share"):
        builder.requests({names.RDMA: 1}).annotation(names.ANNOTATION_DEVICE_HINT, json.dumps(FUNCTION))
    if kind == "joint":
        builder.annotation(names.ANNOTATION_DEVICE_JOINT, json.dumps(JOINT))
    return zoned(builder, policy, exclusive), policy, exclusive


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_pod_is_placed_if_and_only_if_cards_interfaces_cores_and_memory_can_lie_together(
    solving: type[Any], data: st.DataObject
) -> None:
    run = solving()
    run.node("n", cpu=64_000)
    zones = data.draw(st.sampled_from([(0, 1), (0, 1, 2), (0, 5)]))
    run.topology("n", node_topology(zones=zones, cores=2, memory=2 * GI))
    places = st.lists(st.sampled_from([*zones, *zones, -1]), min_size=4, max_size=4)
    slots = [*on_zones(gpu_slots(4), *data.draw(places)), *on_zones(nic_slots(2, functions=1), *data.draw(places))]
    run.devices("n", slots)
    for minor in data.draw(st.sets(st.integers(0, 3), max_size=2)):
        run.pod(bound(f"g{minor}", [gpu_grant(minor)]))
    for minor in data.draw(st.sets(st.integers(0, 1), max_size=1)):
        run.pod(
            bound(
                f"r{minor}", [device("rdma", minor, {names.RDMA: 1}), function(f"0000:{minor:02x}:00.1", "rdma", minor)]
            )
        )
    for cpus in data.draw(st.sets(st.sampled_from(["0", "1,2", "4,5,6", "3,7"]), max_size=2)):
        run.pod(bound(f"c{cpus[0]}", cpus=cpus))
    builder, policy, exclusive = data.draw(asking())
    is_there = there_is_a_place(run, builder, policy, exclusive, zones)
    run.pod(builder)
    placed = run.nodes_of(run.round()) == {"a": "n"}  # asserts that the verifier has nothing against it
    assert placed == is_there


def there_is_a_place(run: Any, builder: PodBuilder, policy: str, exclusive: str, zones: tuple[int, ...]) -> bool:
    """Every set of NUMA nodes, of devices and of CPUs is tried."""
    nodes = run.cluster.nodes
    template = builder.build(1).template
    request = read_request(template.requests, template.annotations)
    slots = {kind: nodes.devices.slots[kind][0] for kind in request.amounts}
    listed = [(kind, slot) for kind, mine in slots.items() for slot in mine]
    choices = []
    for size in range(1, len(listed) + 1):
        for some in combinations(listed, size):
            by_kind = {kind: [slot for other, slot in some if other == kind] for kind in slots}
            found = choose_devices(NodeDevices(by_kind), request)
            if not isinstance(found, NoCapacity):
                used = {(grant.kind, grant.minor) for grant in all_grants(found)}
                choices.append({slot.numa for kind, slot in listed if (kind, slot.minor) in used} - {-1})
    cpus, memory = template.requests.get(names.CPU, 0), template.requests.get(names.MEMORY, 0)
    is_own = template.labels[names.LABEL_QOS] == "LSR"
    must = "FullPCPUs" if "Full" in template.annotations[names.ANNOTATION_RESOURCE_SPEC] and is_own else ""
    here = nodes.cores.zones(0)
    if must and cpus % 2000:
        return False

    def holds(some: Iterable[int], *, each_has_some: bool) -> bool:
        free = {}
        for zone in some:
            mine = usable_cpus(here.layout, here.free_cpus & here.layout.zone_cpus[zone], must)
            whole = min(len(mine), here.available[zone][names.CPU] // 1000) // (2 if must else 1) * (2 if must else 1)
            free[zone] = (
                1000 * whole if is_own and cpus else here.available[zone][names.CPU],
                here.available[zone][names.MEMORY],
            )
        wanted = (cpus, memory)
        if each_has_some and any(
            wish and not have for mine in free.values() for wish, have in zip(wanted, mine, strict=True)
        ):
            return False
        return all(sum(mine[at] for mine in free.values()) >= wish for at, wish in enumerate(wanted))

    if policy == BEST_EFFORT:
        return bool(choices) and holds(zones, each_has_some=False)
    status = nodes.cores.status(0)
    near = {zone for _, slot in listed for zone in (slot.numa,) if zone >= 0}
    sets = [some for size in range(1, len(near) + 1) for some in combinations(sorted(near), size)]
    able = [some for some in sets if any(choice <= {*some} for choice in choices)]
    if not able or (policy == SINGLE and len(able[0]) > 1):
        return False
    return any(
        len(some) == len(able[0])
        and holds(some, each_has_some=True)
        and (exclusive != "Required" or may_hold(some, status))
        for some in able
    )
