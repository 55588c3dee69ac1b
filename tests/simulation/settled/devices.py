"""INVENTORY, and what nodes offer, against the Device objects: which minors may be given out, and how much of each.

What it says of objects that cannot be read is left to the tests of device-inventory: no run has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.simulation.harness import Harness
from tests.simulation.settled.held import SCHEDULING, messages, objects

from berth.contracts import buckets, names, subjects
from berth.contracts.inventory import NodeInventory
from berth.invariants import Counts
from berth.invariants.facts import amounts_of
from berth.resources.amounts import Amounts
from berth.simcluster.store.objects import Obj

SUMMED: Final = (names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.RDMA)
"""What a node offers of its devices in sum; of FPGAs it offers nothing in sum."""

Slots = dict[tuple[str, int], tuple[bool, Amounts]]


def inventory(harness: Harness, counts: Counts) -> Iterator[str]:
    """Nodes of which INVENTORY says something else than their Device."""
    counted = messages(harness.nats, buckets.INVENTORY, NodeInventory, "node.")
    there = {subjects.named_key("node", name): obj for name, obj in objects(harness, SCHEDULING, "devices").items()}
    for key in sorted(counted.keys() | there.keys()):
        counts.judged("I8")
        if key not in there:
            yield f"INVENTORY shows {key}, of which there is no Device"
        elif key not in counted:
            yield f"INVENTORY shows no {key}, of which there is a Device"
        else:
            yield from _node(key, reported(there[key]), counted[key])


def sums(harness: Harness, counts: Counts) -> Iterator[str]:
    """Nodes whose status offers something else than what their healthy GPUs sum up to."""
    devices = objects(harness, SCHEDULING, "devices")
    for name, node in objects(harness, "", "nodes").items():
        counts.judged("I8")
        offered = amounts_of(node.data.get("status", {}).get("allocatable"))
        totals = _totals(reported(devices[name])) if name in devices else {}
        if any(offered.get(each, 0) != totals.get(each, 0) for each in SUMMED):
            yield f"node {name} offers {offered}, its healthy devices sum up to {totals}"


def reported(device: Obj) -> Slots:
    """Minors of a Device object: whether they are healthy, and their amounts."""
    return {
        (each["type"], each["minor"]): (bool(each.get("health")), amounts_of(each.get("resources")))
        for each in device.data["spec"].get("devices") or ()
    }


def _node(key: str, there: Slots, counted: NodeInventory) -> Iterator[str]:
    slots = {(slot.kind, slot.minor): (slot.healthy, slot.amounts) for slot in counted.devices}
    for place in sorted(there.keys() | slots.keys()):
        here, says = there.get(place), slots.get(place)
        if here != says:
            yield f"INVENTORY, {key}, {place[0]} {place[1]}: is (healthy, amounts) {here}, counted as {says}"
    totals = _totals(there)
    if totals != counted.totals:
        yield f"INVENTORY, {key}: healthy devices sum up to {totals}, not {counted.totals}"


def _totals(there: Slots) -> Amounts:
    totals: Amounts = {}
    for healthy, amounts in there.values():
        for name, amount in amounts.items() if healthy else ():
            totals[name] = totals.get(name, 0) + amount
    return totals
