"""The device vectors of GPUs: memory fill, order, scores, instances, and the allocation on one node."""

import json
from pathlib import Path
from typing import Any

import pytest

from berth.contracts import names
from berth.placement_solver.core.devices import (
    SCOPES,
    Grant,
    NoCapacity,
    Slot,
    Want,
    allocate_gpus,
    charge,
    gpu_want,
    scoring_of,
)
from berth.placement_solver.core.devices.columns import FAMILIES, FPGA, GPU, RDMA, Family
from berth.placement_solver.core.devices.memory import fill_memory
from berth.placement_solver.core.devices.ordering import Candidate, by_minor
from berth.placement_solver.core.devices.scoring import score
from berth.resources.amounts import parse_amounts
from berth.rules.device_request import device_requests

FOLDER = next(p for p in Path(__file__).resolve().parents if p.name == "tests") / "vectors" / "devices"


def load(name: str) -> list[Any]:
    content = json.loads((FOLDER / f"{name}.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in content["cases"]]


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


@pytest.mark.parametrize("case", load("gpu_memory_fill"))
def test_memory_fill(case: dict[str, Any]) -> None:
    totals = by_minor_of(case["given"]["deviceTotals"])
    filled = [
        fill_memory(GPU.vector(amounts(entry["resources"])), GPU.vector(totals.get(entry["minor"], {})))
        for entry in case["given"]["allocations"]
    ]
    if case["expect"].get("error"):
        assert None in filled
    else:
        assert filled == [GPU.vector(amounts(entry["resources"])) for entry in case["expect"]["allocations"]]


@pytest.mark.parametrize("case", [c for c in load("device_ordering") if "preferredPCIe" not in c.values[0]["given"]])
def test_order(case: dict[str, Any]) -> None:
    given = case["given"]
    candidates = [Candidate(d["minor"], d["score"]) for d in given["devices"]]
    for listed in (candidates, candidates[::-1]):
        order = by_minor(listed, given["preferredMinors"])
        assert [candidate.minor for candidate in order] == case["expect"]["order"]


@pytest.mark.parametrize("case", [c for c in load("device_scoring") if "deviceScore" in c.values[0]["expect"]])
def test_score(case: dict[str, Any]) -> None:
    given = case["given"]
    vectors = (GPU.vector(amounts(given[name])) for name in ("total", "free", "perInstance"))
    assert score(*vectors, scoring(given, GPU)) == case["expect"]["deviceScore"]


@pytest.mark.parametrize(
    "case", [c for c in load("instances_per_request") if c.values[0]["given"]["deviceType"] == "gpu"]
)
def test_instances(case: dict[str, Any]) -> None:
    expect = case["expect"]
    want = want_of(amounts(case["given"]["requests"]))
    assert want.family.resources(want.amounts) == amounts(expect["perInstance"])
    assert want.instances == expect["instances"]
    assert expect.get("shared", want.shared) == want.shared


def fixtures(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text()).get("fixtures", {})


def gpu_alone(case: Any) -> bool:
    given = case.values[0]["given"]
    others = {names.RDMA, names.FPGA} & set(given.get("requests", {}))
    more = given.get("deviceJointAllocate") or given.get("useTemplates")
    return "requests" in given and not more and not others


@pytest.mark.parametrize("case", [case for case in load("device_allocation_flat") if gpu_alone(case)])
def test_flat_allocation(case: dict[str, Any]) -> None:
    check_allocation(case, case["given"]["inventory"])


@pytest.mark.parametrize("case", [case for case in load("joint_and_topology_allocation") if gpu_alone(case)])
def test_topology(case: dict[str, Any]) -> None:
    inventories = fixtures("joint_and_topology_allocation")["inventories"]
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
    """What a caller does before `allocate`: count holders once, give back what victims hold."""
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
    return tuple(
        slot._replace(
            used=tuple(max(0, u - b) for u, b in zip(slot.used, family.vector(back.get(slot.minor, {})), strict=True))
        )
        for slot in charge(slots, holders)
    )


def place(
    given: dict[str, Any], normalised: dict[str, int], inventory: list[dict[str, Any]]
) -> list[dict[str, Any]] | NoCapacity:
    slots = slots_given(given, GPU, inventory)
    scope = SCOPES[given.get("deviceAllocateHint", {}).get("gpu", {}).get("requiredTopologyScope", "Node")]
    answer = allocate_gpus(slots, want_of(normalised), scoring=scoring(given, GPU), scope=scope if scope > 1 else 0)
    if isinstance(answer, NoCapacity):
        return answer
    return [{"minor": minor, "resources": GPU.resources(vector)} for minor, vector in answer]


def test_every_family_has_a_column() -> None:
    assert {family.name for family in (GPU, RDMA, FPGA)} == set(FAMILIES)
