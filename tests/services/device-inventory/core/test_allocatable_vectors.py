"""The reference cases of what a Device puts into its node, and of when that has to be written."""

from typing import Any

import pytest

from berth.contracts.state import Device, DeviceInfo, Node
from berth.device_inventory.core.allocatable import node_patch
from berth.device_inventory.core.count import inventory_of
from berth.resources.amounts import parse_amounts
from berth.testing.vectors import cases
from berth.vendors.sums import device_sums, needs_sync, owned


def amounts(resources: dict[str, str]) -> dict[str, int]:
    parsed, problems = parse_amounts(resources, "resources")
    assert not problems
    return parsed


def device_of(given: dict[str, Any]) -> Device:
    entries = [
        DeviceInfo(
            kind=entry["type"],
            minor=entry.get("minor", 0),
            uuid=entry.get("id", ""),
            healthy=entry.get("health", False),
            amounts=amounts(entry["resources"]),
            position=position,
        )
        for position, entry in enumerate(given["devices"])
    ]
    return Device(name="n", uid="d", version=1, labels=given["labels"], devices=entries)


@pytest.mark.parametrize("case", cases("devices/node_allocatable"))
def test_node_allocatable(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    device = device_of(given["device"]) if given["device"] is not None else None
    inventory = inventory_of(device) if device is not None else None
    family = owned(kind=given["scope"])
    shared = given["syncSharedResource"]
    sums = {n: a for n, a in device_sums(inventory, publish_shared=shared).items() if n in family}
    assert sums == amounts(expect.get("resources", {}))
    full = dict.fromkeys(family, 7)
    node = Node(name="n", uid="u", version=1, allocatable=full, capacity=full)
    patch = node_patch(node, device, inventory, publish_shared=shared, threshold=0.0)
    assert patch is not None
    written = {n: text for n, text in patch.resources.items() if n in family}
    assert amounts({n: text for n, text in written.items() if text is not None}) == amounts(expect.get("resources", {}))
    if "remove" in expect:
        assert sorted(n for n, text in written.items() if text is None) == sorted(expect["remove"])
    assert patch.labels == expect.get("labels", {})


@pytest.mark.parametrize("case", cases("devices/node_allocatable_needs_sync"))
def test_needs_sync(case: dict[str, Any]) -> None:
    given = case["given"]
    assert needs_sync(amounts(given["old"]), amounts(given["new"]), given["threshold"]) is case["expect"]["sync"]
