"""The reference cases of who holds which device: pods and Device objects as the solver sees them come and go."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts import names
from berth.contracts.grants import device
from berth.contracts.inventory import DeviceSlot
from berth.contracts.ledger import Grant
from berth.placement_solver.core.devices import GPU
from berth.resources.amounts import parse_amounts
from berth.rules.records.device_allocated import DeviceAllocated
from berth.rules.records.seam import Bound
from berth.testing.builders import PodBuilder, pod
from berth.testing.vectors import cases

NODE = "n"


def amounts(resources: dict[str, str]) -> dict[str, int]:
    parsed, problems = parse_amounts(resources, "resources")
    assert not problems
    return parsed


def slots(devices: list[dict[str, Any]]) -> list[DeviceSlot]:
    return [
        DeviceSlot(kind=each["type"], minor=each["minor"], healthy=each["health"], amounts=amounts(each["resources"]))
        for each in devices
    ]


def _noted(text: str | None) -> dict[str, str]:
    return {names.ANNOTATION_DEVICE_ALLOCATED: text or ""}


def written(grants: list[Grant]) -> str:
    return DeviceAllocated().write(Bound("plan", tuple(grants)))[names.ANNOTATION_DEVICE_ALLOCATED]


def holder(given: dict[str, Any]) -> PodBuilder:
    """A pod that asks for what its note says: a note alone is no proof, and counts for nothing."""
    namespace, _, name = given["name"].partition("/")
    builder = pod(name, namespace)
    note = given["deviceAllocated"]
    for grant in DeviceAllocated().read(_noted(note)) or ():
        shared = {each: amount for each, amount in grant.amounts.items() if each != names.GPU_MEMORY}
        builder.requests(shared)
    if note:
        builder.annotation(names.ANNOTATION_DEVICE_ALLOCATED, note)
    return builder.set(node=given["node"], phase=given["phase"])


def play(run: Any, event: dict[str, Any]) -> None:
    if event["type"] == "podDelete":
        namespace, _, name = event["pod"]["name"].partition("/")
        run.delete_pod(name, namespace)
    elif event["type"] in ("podAdd", "podUpdate"):
        run.pod(holder(event["pod"]))
    else:
        run.devices(NODE, slots(event.get("devices", [])))


def by_minor(entries: dict[str, Any]) -> dict[int, dict[str, int]]:
    found = {int(minor): amounts(resources) for minor, resources in entries.get("gpu", {}).items()}
    return {minor: held for minor, held in found.items() if held}


@pytest.mark.parametrize("case", cases("devices/device_accounting"))
def test_what_is_free_and_used(solving: type[Any], case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    run = solving()
    run.node(NODE)
    totals = given["deviceTotals"]["gpu"].items()
    run.devices(
        NODE, slots([{"type": "gpu", "minor": int(m), "health": True, "resources": each} for m, each in totals])
    )
    for name, held in given["initiallyAllocated"].items():
        grants = [device("gpu", minor, each) for minor, each in by_minor(held).items()]
        note = written(grants)
        run.pod(holder({"name": name, "node": NODE, "deviceAllocated": note, "phase": "Running"}))
    for event in given["events"]:
        play(run, event)
    (devices,) = [run.cluster.nodes.devices.slots["gpu"][run.cluster.nodes.row(NODE)]]
    used = {slot.minor: GPU.resources(slot.used) for slot in devices if any(slot.used)}
    free = {slot.minor: GPU.resources(slot.free) for slot in devices if any(slot.free)}
    assert used == by_minor(expect["used"])
    assert free == by_minor(expect["free"])
    book = run.cluster.book
    assert sorted("/".join(each.name) for each in book.claims() if each.grants) == expect["owners"]


@pytest.mark.parametrize("case", cases("devices/annotation_parsing", lambda case: "write" in case["given"]))
def test_the_note_of_an_allocation_is_written(case: dict[str, Any]) -> None:
    grants = [
        device(kind, each["minor"], amounts(each["resources"]))
        for kind, entries in case["given"]["allocations"].items()
        for each in entries
    ]
    assert written(grants) == case["expect"]["value"]


@pytest.mark.parametrize(
    "case",
    cases(
        "devices/annotation_parsing",
        lambda case: case["given"].get("annotation") == names.ANNOTATION_DEVICE_ALLOCATED,
    ),
)
def test_the_note_of_an_allocation_is_read(case: dict[str, Any]) -> None:
    read = DeviceAllocated().read(_noted(case["given"]["value"]))
    assert read is not None
    expected = [
        (kind, each["minor"], amounts(each["resources"]))
        for kind, entries in (case["expect"]["allocations"] or {}).items()
        for each in entries
    ]
    assert [(each.kind, each.minor, each.amounts) for each in read] == expected
