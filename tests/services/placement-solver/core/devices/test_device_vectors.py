"""The device vectors: memory fill, order, scores, instances, and the flat allocation on one node."""

import json
from pathlib import Path
from typing import Any

import pytest

from berth.contracts import names
from berth.placement_solver.core.devices import (
    SCOPES,
    Grant,
    NoRoom,
    Slot,
    Templates,
    Want,
    allocate,
    allocate_gpus,
    charge,
    gpu_want,
    read_templates,
    scoring_of,
    template_on,
)
from berth.placement_solver.core.devices.columns import FAMILIES, FPGA, GPU, RDMA, Family
from berth.placement_solver.core.devices.memory import fill_memory
from berth.placement_solver.core.devices.ordering import Candidate, by_minor, by_pcie
from berth.placement_solver.core.devices.scoring import node_score, normalise, score
from berth.placement_solver.core.devices.templates import matching
from berth.placement_solver.core.devices.want import counted_want
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


def want_of(
    kind: str, normalised: dict[str, int], hint: dict[str, Any] | None = None, matching: int = 0
) -> Want | NoRoom:
    if kind == "gpu":
        want = gpu_want(normalised)
        assert want is not None
        return want
    family = FAMILIES[kind]
    hint = hint or {}
    return counted_want(
        family,
        normalised[family.columns[0]],
        strategy=hint.get("allocateStrategy", ""),
        exclusive=hint.get("exclusivePolicy", ""),
        matching=matching,
    )


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


@pytest.mark.parametrize("case", load("device_ordering"))
def test_order(case: dict[str, Any]) -> None:
    given = case["given"]
    candidates = [Candidate(d["minor"], d["score"], d.get("pcieID", "")) for d in given["devices"]]
    for listed in (candidates, candidates[::-1]):
        if "preferredPCIe" in given:
            order = by_pcie(listed, given["preferredPCIe"])
        else:
            order = by_minor(listed, given["preferredMinors"])
        assert [candidate.minor for candidate in order] == case["expect"]["order"]


@pytest.mark.parametrize("case", load("device_scoring"))
def test_score(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    if "normalised" in expect:
        assert normalise(given["rawNodeScores"]) == expect["normalised"]
    elif "deviceScore" in expect:
        vectors = (GPU.vector(amounts(given[name])) for name in ("total", "free", "perInstance"))
        assert score(*vectors, scoring(given, GPU)) == expect["deviceScore"]
    else:
        assert summed_node_score(given) == expect["nodeScore"]


def summed_node_score(given: dict[str, Any]) -> int:
    requests = device_requests(amounts(given["requests"]))
    assert isinstance(requests, dict)
    points = 0
    for kind, normalised in requests.items():
        family = FAMILIES[kind]
        want = want_of(kind, normalised)
        assert isinstance(want, Want)
        totals, free = by_minor_of(given["deviceTotals"][kind]), by_minor_of(given["deviceFree"][kind])
        back = by_minor_of(given.get("preemptible", {}).get(kind))
        slots = []
        for minor, total in totals.items():
            capacity, left, given_back = (family.vector(of.get(minor, {})) for of in (totals, free, back))
            used = tuple(max(0, c - f - g) for c, f, g in zip(capacity, left, given_back, strict=True))
            slots.append(Slot(minor, family.vector(total), used))
        points += node_score(slots, want.amounts, scoring(given, family))
    return points


@pytest.mark.parametrize("case", load("instances_per_request"))
def test_instances(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    hint = given.get("hint") or {}
    selector = hint.get("selector")
    matching = [d for d in given.get("nodeDevices", []) if selector is None or matches(selector, d.get("labels", {}))]
    want = want_of(given["deviceType"], amounts(given["requests"]), hint, len(matching))
    if expect.get("error"):
        assert isinstance(want, NoRoom)
        assert want.unresolvable
        return
    assert isinstance(want, Want)
    assert want.family.resources(want.amounts) == amounts(expect["perInstance"])
    assert want.instances == expect["instances"]
    assert expect.get("shared", want.shared) == want.shared


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels") or {}
    tests = {
        "Exists": lambda e: e["key"] in labels,
        "DoesNotExist": lambda e: e["key"] not in labels,
        "In": lambda e: labels.get(e["key"]) in e["values"],
        "NotIn": lambda e: labels.get(e["key"]) not in e["values"],
    }
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        tests[e["operator"]](e) for e in selector.get("matchExpressions") or []
    )


def fixtures(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text()).get("fixtures", {})


def templates_of(name: str) -> Templates:
    models = fixtures(name).get("templates", {})
    return read_templates({m: {n: amounts(of) for n, of in sizes.items()} for m, sizes in models.items()})


@pytest.mark.parametrize("case", load("device_allocation_flat"))
def test_flat_allocation(case: dict[str, Any]) -> None:
    check_allocation(case, "device_allocation_flat", case["given"]["inventory"])


def gpu_alone(case: Any) -> bool:
    given = case.values[0]["given"]
    return "requests" in given and not given.get("deviceJointAllocate") and names.RDMA not in given["requests"]


@pytest.mark.parametrize("case", [case for case in load("joint_and_topology_allocation") if gpu_alone(case)])
def test_topology(case: dict[str, Any]) -> None:
    inventories = fixtures("joint_and_topology_allocation")["inventories"]
    check_allocation(case, "joint_and_topology_allocation", inventories[case["given"]["inventory"]])


@pytest.mark.parametrize("case", [case for case in load("npu_template_allocation") if gpu_alone(case)])
def test_templates(case: dict[str, Any]) -> None:
    inventories = fixtures("npu_template_allocation")["inventories"]
    check_allocation(case, "npu_template_allocation", inventories[case["given"]["inventory"]])


@pytest.mark.parametrize("case", [c for c in load("npu_template_allocation") if "match" in c.values[0]["given"]])
def test_template_match(case: dict[str, Any]) -> None:
    match = case["given"]["match"]
    asked = GPU.vector(amounts(match["perInstance"]))
    assert (
        matching(templates_of("npu_template_allocation"), asked, strict=match["strict"]) == case["expect"]["templates"]
    )


def check_allocation(case: dict[str, Any], vectors: str, inventory: list[dict[str, Any]]) -> None:
    given, expect = case["given"], case["expect"]
    requests = device_requests(amounts(given["requests"]))
    assert isinstance(requests, dict)
    found = {
        kind: place(given, kind, normalised, inventory, templates_of(vectors)) for kind, normalised in requests.items()
    }
    refused = [answer for answer in found.values() if isinstance(answer, NoRoom)]
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
    given: dict[str, Any], kind: str, normalised: dict[str, int], inventory: list[dict[str, Any]], templates: Templates
) -> list[dict[str, Any]] | NoRoom:
    family = FAMILIES[kind]
    slots = slots_given(given, family, inventory)
    want = want_of(kind, normalised)
    if isinstance(want, NoRoom):
        return want
    template: str | NoRoom = ""
    if kind == "gpu" and given.get("useTemplates"):
        labels = given.get("nodeLabels", {})
        template = template_on(templates, want, labels[names.LABEL_GPU_VENDOR], labels[names.LABEL_GPU_MODEL])
        if isinstance(template, NoRoom):
            return template
    scope = SCOPES[given.get("deviceAllocateHint", {}).get("gpu", {}).get("requiredTopologyScope", "Node")]
    answer = (
        allocate_gpus(slots, want, scoring=scoring(given, family), scope=scope if scope > 1 else 0)
        if kind == "gpu"
        else allocate(slots, want, scoring=scoring(given, family))
    )
    if isinstance(answer, NoRoom):
        return answer
    extension = {"extension": {"gpuSharedResourceTemplate": template}} if template else {}
    return [{"minor": minor, "resources": family.resources(vector)} | extension for minor, vector in answer]


def test_every_family_has_a_column() -> None:
    assert {family.name for family in (GPU, RDMA, FPGA)} == set(FAMILIES)
