"""The device vectors: memory fill, order, scores, instances, and every choice on one node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.libs.rules.devices.given import (
    FromReservation,
    amounts,
    by_minor,
    expected,
    held,
    in_order_of,
    node,
    request,
    scoring,
    slot,
    templates,
    written,
)

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.columns import FAMILIES, GPU
from berth.rules.devices.hints import NO_HINT, read_hints
from berth.rules.devices.memory import fill_memory
from berth.rules.devices.numa_hints import choose_on, device_hints
from berth.rules.devices.ordering import Candidate, by_place
from berth.rules.devices.ordering import by_minor as in_order
from berth.rules.devices.partition_spec import RESTRICTED, PartitionSpec, read_partition_spec
from berth.rules.devices.partitions import PartitionRules, partition_rules, policy_of
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.devices.reserved import ReservedDevices, without
from berth.rules.devices.scoring import node_score, normalised, score, scoring_of
from berth.rules.devices.slots import Grant, NoCapacity, Slot, release
from berth.rules.devices.templates import matching
from berth.rules.devices.topology import SCOPES
from berth.rules.devices.want import Want, gpu_want, want_on
from berth.testing.vectors import cases, fixtures


def inventory_of(file: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    named = case["given"]["inventory"]
    return list(fixtures(file)["inventories"][named] if isinstance(named, str) else named)


def judge(answer: Any, expect: dict[str, Any]) -> None:
    """Compares a choice, or why there is none."""
    assert isinstance(answer, NoCapacity | Problem) != expect["ok"], answer
    if isinstance(answer, Problem):
        assert expect.get("code", "UnschedulableAndUnresolvable") == "UnschedulableAndUnresolvable"
        assert expect.get("reasonContains", "") in answer.message
    elif isinstance(answer, NoCapacity):
        assert expect.get("reasonContains", "") in answer.reason
        if "code" in expect:
            assert answer.unresolvable == (expect["code"] == "UnschedulableAndUnresolvable")
    elif "allocations" in expect:
        assert written(answer) == expected(expect["allocations"])


def allocation(file: str, case: dict[str, Any]) -> None:
    given = case["given"]
    table = fixtures(file)["templates"] if given.get("useTemplates") else None
    asked = request(given, table)
    if isinstance(asked, Problem):
        judge(asked, case["expect"])
        return
    there = node(given, inventory_of(file, case))
    back = {
        kind: [Grant(minor, FAMILIES[kind].vector(of)) for minor, of in by_minor(each).items()]
        for kind, each in given.get("preemptible", {}).items()
    }
    answer = choose_devices(
        without(there, [back]),
        asked,
        scoring=scoring(given),
        is_final=given.get("phase") != "filter",
    )
    judge(answer, case["expect"])


@pytest.mark.parametrize("case", cases("devices/device_allocation_flat"))
def test_flat_allocation(case: dict[str, Any]) -> None:
    if "reservation" in case["given"]:
        reserved(case)
    else:
        allocation("devices/device_allocation_flat", case)


@pytest.mark.parametrize("case", cases("devices/joint_and_topology_allocation"))
def test_joint_and_topology(case: dict[str, Any]) -> None:
    allocation("devices/joint_and_topology_allocation", case)


@pytest.mark.parametrize("case", cases("devices/gpu_partition_allocation"))
def test_partitions(case: dict[str, Any]) -> None:
    allocation("devices/gpu_partition_allocation", case)


@pytest.mark.parametrize("case", cases("devices/npu_template_allocation", lambda case: "match" not in case["given"]))
def test_npu_templates(case: dict[str, Any]) -> None:
    allocation("devices/npu_template_allocation", case)


@pytest.mark.parametrize("case", cases("devices/npu_template_allocation", lambda case: "match" in case["given"]))
def test_matching_of_templates(case: dict[str, Any]) -> None:
    match = case["given"]["match"]
    table = templates(fixtures("devices/npu_template_allocation")["templates"])
    found = matching(table, amounts(match["perInstance"]), strict=match["strict"])
    assert {model: list(each) for model, each in found.items()} == {
        model: sorted(each) for model, each in case["expect"]["templates"].items()
    }


@pytest.mark.parametrize("case", cases("devices/gpu_requirements"))
def test_gpu_requirements(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    annotations = {}
    if "gpuPartitionSpec" in given:
        annotations[names.ANNOTATION_GPU_PARTITION_SPEC] = given["gpuPartitionSpec"]
    if "gpuHint" in given:
        annotations[names.ANNOTATION_DEVICE_HINT] = json.dumps({"gpu": given["gpuHint"]})
    table = templates(fixtures("devices/gpu_requirements")["templates"])
    answer = read_request(amounts(given["requests"]), annotations, table)
    if expect.get("error"):
        assert isinstance(answer, Problem)
        return
    assert isinstance(answer, DeviceRequest)
    assert requirements(answer) == wanted_requirements(expect["requirements"])


def requirements(asked: DeviceRequest) -> dict[str, Any] | None:
    want = gpu_want(asked.amounts.get("gpu", {}))
    if want is None:
        return None
    spec = asked.partition
    found: dict[str, Any] = {
        "instances": want.instances,
        "perInstance": GPU.resources(want.amounts),
        "shared": want.shared,
        "honorPartition": spec is not None,
        "restrictedPartition": spec is not None and spec.policy == RESTRICTED,
    }
    if spec is not None and spec.bandwidth:
        found["ringBusBandwidth"] = amounts({"x": spec.bandwidth})["x"]
    scope = asked.hints.get("gpu", NO_HINT).scope
    if scope:
        found["requiredTopologyScope"] = next(name for name, level in SCOPES.items() if level == scope)
        found["requiredTopologyScopeLevel"] = scope
    if asked.templates is not None:
        found["templates"] = {model: list(each) for model, each in asked.templates.items()}
    return found


def wanted_requirements(expect: dict[str, Any] | None) -> dict[str, Any] | None:
    if expect is None:
        return None
    read = dict(expect, perInstance=amounts(expect["perInstance"]))
    if "ringBusBandwidth" in expect:
        read["ringBusBandwidth"] = amounts({"x": expect["ringBusBandwidth"]})["x"]
    if "requiredTopologyScope" in expect:
        read.setdefault("requiredTopologyScopeLevel", SCOPES[expect["requiredTopologyScope"]])
    return read


def reserved(case: dict[str, Any]) -> None:
    given = case["given"]
    asked = request(given, fixtures("devices/device_allocation_flat")["templates"] if "useTemplates" in given else None)
    assert isinstance(asked, DeviceRequest)
    if "reservation" in given:
        mine = given["reservation"]
        given = given | {"matchedReservations": [{"allocatePolicy": "", "reserved": mine, "remained": mine}]}
        used = "assigned"
    else:
        used = "inUse"
    reservations = [
        ReservedDevices(
            each["allocatePolicy"],
            held(each["reserved"]),
            held(each["remained"]),
        )
        for each in given["matchedReservations"]
    ]
    answer = in_order_of(
        node(given, given["inventory"], used),
        asked,
        reservations,
        taken=[held(each.get("allocatedToOwners")) for each in given["matchedReservations"]],
        is_required=given.get("requiredFromReservation", False),
        is_ignored=given.get("reservationIgnored", False),
        scoring=scoring(given),
    )
    expect = case["expect"]
    if "reasonContains" in expect:
        # The solver names the Reservation.
        expect = expect | {"reasonContains": expect["reasonContains"].removeprefix("Reservation(s) ")}
    judge(answer.chosen if isinstance(answer, FromReservation) else answer, expect)


@pytest.mark.parametrize("case", cases("devices/device_reservation"))
def test_reservations(case: dict[str, Any]) -> None:
    reserved(case)


@pytest.mark.parametrize("case", cases("devices/numa_device_hints"))
def test_numa_hints(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    annotation = {names.ANNOTATION_DEVICE_HINT: json.dumps(given.get("deviceAllocateHint", {}))}
    hints = read_hints(annotation)
    assert not isinstance(hints, Problem)
    asked = DeviceRequest({kind: amounts(each) for kind, each in given["requestsByType"].items()}, hints)
    there = node(given, inventory_of("devices/numa_device_hints", case))
    if "numaAffinity" in given:
        answer = choose_on(there, asked, given["numaAffinity"])
        assert isinstance(answer, NoCapacity) != expect["ok"]
        return
    found = device_hints(there, asked)
    if expect.get("error"):
        assert isinstance(found, NoCapacity) or not found
        return
    assert not isinstance(found, NoCapacity)
    hints = [{"numaNodes": list(each.zones), "preferred": each.is_preferred, "score": each.score} for each in found]
    assert dict.fromkeys(given["requestsByType"], hints) == expect["hints"]


@pytest.mark.parametrize("case", cases("devices/gpu_memory_fill"))
def test_memory_fill(case: dict[str, Any]) -> None:
    totals = by_minor(case["given"]["deviceTotals"])
    filled = [
        fill_memory(GPU.vector(amounts(entry["resources"])), GPU.vector(totals.get(entry["minor"], {})))
        for entry in case["given"]["allocations"]
    ]
    if case["expect"].get("error"):
        assert None in filled
    else:
        minors = [entry["minor"] for entry in case["given"]["allocations"]]
        expected = [
            (entry["minor"], GPU.vector(amounts(entry["resources"]))) for entry in case["expect"]["allocations"]
        ]
        assert list(zip(minors, filled, strict=True)) == expected


@pytest.mark.parametrize("case", cases("devices/device_ordering"))
def test_order(case: dict[str, Any]) -> None:
    given = case["given"]
    candidates = [Candidate(each["minor"], each["score"]) for each in given["devices"]]
    places = {each["minor"]: each["pcieID"] for each in given["devices"] if "pcieID" in each}
    for listed in (candidates, candidates[::-1]):
        if "preferredPCIe" in given:
            order = by_place(listed, places, given["preferredPCIe"], given.get("preferredMinors", ()))
        else:
            order = in_order(listed, given["preferredMinors"])
        assert [candidate.minor for candidate in order] == case["expect"]["order"]


def device_score(given: dict[str, Any]) -> int:
    total, free, each = (GPU.vector(amounts(given[name])) for name in ("total", "free", "perInstance"))
    spec = given["scoring"]
    return score(total, free, each, scoring_of(GPU, spec["type"], spec["weights"]))


def score_of_node(given: dict[str, Any]) -> int:
    asked = read_request(amounts(given["requests"]), {})
    assert isinstance(asked, DeviceRequest)
    points = 0
    for kind, normal in asked.amounts.items():
        family = FAMILIES[kind]
        totals, frees = (by_minor(given[name].get(kind)) for name in ("deviceTotals", "deviceFree"))
        held_back = by_minor(given.get("preemptible", {}).get(kind))
        devices = []
        for minor, total in totals.items():
            whole, free = family.vector(total), family.vector(frees.get(minor, {}))
            used = tuple(all_of - left for all_of, left in zip(whole, free, strict=True))
            back = [Grant(minor, family.vector(held_back.get(minor, {})))]
            (there,) = release([Slot(minor, whole, used)], back)
            devices.append((whole, there.free))
        want = want_on(kind, normal, ())
        assert isinstance(want, Want)
        spec = given["scoring"]
        points += node_score(devices, want.amounts, scoring_of(family, spec["type"], spec["weights"]))
    return points


@pytest.mark.parametrize("case", cases("devices/device_scoring"))
def test_score(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    if "normalised" in expect:
        assert normalised(given["rawNodeScores"]) == expect["normalised"]
    elif "nodeScore" in expect:
        assert score_of_node(given) == expect["nodeScore"]
    else:
        assert device_score(given) == expect["deviceScore"]


@pytest.mark.parametrize("case", cases("devices/instances_per_request"))
def test_instances(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    kind = given["deviceType"]
    hints = read_hints({names.ANNOTATION_DEVICE_HINT: json.dumps({kind: given.get("hint", {})})})
    assert not isinstance(hints, Problem)
    there = [slot(each | {"type": kind}) for each in given.get("nodeDevices", ())]
    want = want_on(kind, amounts(given["requests"]), there, hints[kind])
    assert isinstance(want, Want) != expect.get("error", False)
    if isinstance(want, Want):
        assert want.family.resources(want.amounts) == amounts(expect["perInstance"])
        assert want.instances == expect["instances"]
        assert expect.get("shared", want.shared) == want.shared


@pytest.mark.parametrize(
    "case",
    cases("devices/annotation_parsing", lambda case: "gpu-partition" in str(case["given"])),
)
def test_partition_annotations(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    if "label" in given:
        assert policy_of(given["labels"]) == expect["policy"]
        return
    annotations = {given["annotation"]: given["value"]} if given["value"] is not None else {}
    if given["annotation"] == names.ANNOTATION_GPU_PARTITION_SPEC:
        found = read_partition_spec(annotations)
        assert isinstance(found, Problem) == expect.get("error", False)
        if not isinstance(found, Problem):
            assert found == wanted_spec(expect["spec"])
        return
    rules = partition_rules({}, {}, annotations)
    assert (rules.problem is not None) == expect.get("error", False)
    if rules.problem is None:
        assert rules == partition_rules_of(expect["table"])


def wanted_spec(spec: dict[str, Any] | None) -> PartitionSpec | None:
    if spec is None:
        return None
    return PartitionSpec(spec["allocatePolicy"], amounts({"x": spec.get("ringBusBandwidth", "0")})["x"])


def partition_rules_of(table: dict[str, Any] | None) -> PartitionRules:
    text = {names.ANNOTATION_GPU_PARTITIONS: json.dumps(table)} if table is not None else {}
    return partition_rules({}, {}, text)
