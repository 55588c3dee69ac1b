"""The device vectors of GPUs: memory fill, order, scores, instances, and the allocation on one node."""

from typing import Any

import pytest

from berth.placement_solver.core.devices import (
    SCOPES,
    Grant,
    NoCapacity,
    Slot,
    Want,
    allocate_gpus,
    charge,
    gpu_want,
    release,
    scoring_of,
)
from berth.rules.devices.columns import FAMILIES, FPGA, GPU, RDMA, Family
from berth.rules.devices.memory import fill_memory
from berth.rules.devices.ordering import Candidate, by_minor
from berth.rules.devices.scoring import score
from berth.resources.amounts import parse_amounts
from berth.rules.device_request import device_requests
from berth.testing.vectors import cases, fixtures


def amounts(resources: Any) -> dict[str, int]:
    parsed, problems = parse_amounts(resources, "resources")
    assert not problems
    return parsed


def by_minor_of(resources: Any) -> dict[int, dict[str, int]]:
    return {int(minor): amounts(of) for minor, of in (resources or {}).items()}


def scoring(given: dict[str, Any], family: Family) -> Any:
    spec = given.get("scoring")
    return scoring_of(family, spec["type"], spec["weights"]) if spec else None


def want_of(normalised: dict[str, int]) -> Want:
    want = gpu_want(normalised)
    assert want is not None
    return want


@pytest.mark.parametrize("case", cases("devices/gpu_memory_fill"))
def test_memory_fill(case: dict[str, Any]) -> None:
    totals = by_minor_of(case["given"]["deviceTotals"])
    filled = [
        fill_memory(GPU.vector(amounts(entry["resources"])), GPU.vector(totals.get(entry["minor"], {})))
        for entry in case["given"]["allocations"]
    ]
    if case["expect"].get("error"):
        assert None in filled
    else:
        minors = [entry["minor"] for entry in case["given"]["allocations"]]
        told = [(entry["minor"], GPU.vector(amounts(entry["resources"]))) for entry in case["expect"]["allocations"]]
        assert list(zip(minors, filled, strict=True)) == told


@pytest.mark.parametrize("case", cases("devices/device_ordering"))
def test_order(case: dict[str, Any]) -> None:
    given = case["given"]
    candidates = [Candidate(d["minor"], d["score"]) for d in given["devices"]]
    for listed in (candidates, candidates[::-1]):
        order = by_minor(listed, given["preferredMinors"])
        assert [candidate.minor for candidate in order] == case["expect"]["order"]


@pytest.mark.parametrize("case", cases("devices/device_scoring"))
def test_score(case: dict[str, Any]) -> None:
    given = case["given"]
    vectors = (GPU.vector(amounts(given[name])) for name in ("total", "free", "perInstance"))
    assert score(*vectors, scoring(given, GPU)) == case["expect"]["deviceScore"]


@pytest.mark.parametrize("case", cases("devices/instances_per_request"))
def test_instances(case: dict[str, Any]) -> None:
    expect = case["expect"]
    want = want_of(amounts(case["given"]["requests"]))
    assert want.family.resources(want.amounts) == amounts(expect["perInstance"])
    assert want.instances == expect["instances"]
    assert expect.get("shared", want.shared) == want.shared


@pytest.mark.parametrize("case", cases("devices/device_allocation_flat"))
def test_flat_allocation(case: dict[str, Any]) -> None:
    check_allocation(case, case["given"]["inventory"])


@pytest.mark.parametrize("case", cases("devices/joint_and_topology_allocation"))
def test_topology(case: dict[str, Any]) -> None:
    inventories = fixtures("devices/joint_and_topology_allocation")["inventories"]
    check_allocation(case, inventories[case["given"]["inventory"]])


def check_allocation(case: dict[str, Any], inventory: list[dict[str, Any]]) -> None:
    given, expect = case["given"], case["expect"]
    requests = device_requests(amounts(given["requests"]))
    assert isinstance(requests, dict)
    found = {kind: place(given, normalised, inventory) for kind, normalised in requests.items()}
    refused = [answer for answer in found.values() if isinstance(answer, NoCapacity)]
    assert (not refused) == expect["ok"]
    if refused:
        assert any(expect.get("reasonContains", "") in answer.reason for answer in refused)
        if "code" in expect:
            assert refused[0].unresolvable == (expect["code"] == "UnschedulableAndUnresolvable")
    elif "allocations" in expect:
        assert found == {
            kind: [with_amounts(entry) for entry in entries] for kind, entries in expect["allocations"].items()
        }


def with_amounts(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"resources": amounts(entry["resources"])}


def slots_given(given: dict[str, Any], family: Family, inventory: list[dict[str, Any]]) -> tuple[Slot, ...]:
    """The node's devices with what is held, and what victims hold given back."""
    held = given.get("assigned", {}).get(family.name, [])
    holders = [Grant(entry["minor"], family.vector(amounts(entry["resources"]))) for entry in held]
    back = by_minor_of(given.get("preemptible", {}).get(family.name))
    slots = []
    for device in inventory:
        if device["type"] == family.name:
            place = device.get("topology") or {}
            total = family.vector(amounts(device["resources"])) if device["health"] else family.zero
            slots.append(Slot(device["minor"], total, family.zero, place.get("nodeID", -1), place.get("pcieID", "")))
    if not slots:
        return ()
    return release(charge(slots, holders), [Grant(minor, family.vector(held)) for minor, held in back.items()])


def place(
    given: dict[str, Any], normalised: dict[str, int], inventory: list[dict[str, Any]]
) -> list[dict[str, Any]] | NoCapacity:
    slots = slots_given(given, GPU, inventory)
    scope = SCOPES[given.get("deviceAllocateHint", {}).get("gpu", {}).get("requiredTopologyScope", "Node")]
    answer = allocate_gpus(slots, want_of(normalised), scoring=scoring(given, GPU), scope=scope if scope > 1 else 0)
    if isinstance(answer, NoCapacity):
        return answer
    return [{"minor": minor, "resources": GPU.resources(vector)} for minor, vector, *_ in answer]


def test_every_family_has_a_column() -> None:
    assert {family.name for family in (GPU, RDMA, FPGA)} == set(FAMILIES)
