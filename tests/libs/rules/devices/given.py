"""The reference cases' way of writing nodes, pods and allocations, as the rules take them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.columns import FAMILIES, Family
from berth.rules.devices.joint import Chosen
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.partitions import partition_rules
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.devices.reserved import Held, ReservedDevices, offered_by, without
from berth.rules.devices.scoring import Scoring, scoring_of
from berth.rules.devices.slots import Function, Grant, NoCapacity, Slot, charge, labels_of
from berth.rules.devices.templates import Templates, model_key, read_templates

WELL_PLANNED = "node.koordinator.sh/secondary-device-well-planned"
ANNOTATIONS = {
    "deviceAllocateHint": names.ANNOTATION_DEVICE_HINT,
    "deviceJointAllocate": names.ANNOTATION_DEVICE_JOINT,
    "gpuPartitionSpec": names.ANNOTATION_GPU_PARTITION_SPEC,
}


def amounts(resources: Any) -> dict[str, int]:
    parsed, problems = parse_amounts(resources, "resources")
    assert not problems
    return parsed


def by_minor(resources: Any) -> dict[int, dict[str, int]]:
    return {int(minor): amounts(of) for minor, of in (resources or {}).items()}


def slot(device: Mapping[str, Any]) -> Slot:
    family = FAMILIES[device["type"]]
    place = device.get("topology") or {}
    functions = [
        Function(each["busID"], each.get("minor", 0), labels_of(group.get("labels") or {}))
        for group in device.get("vfGroups", ())
        for each in group["vfs"]
    ]
    return Slot(
        device["minor"],
        family.vector(amounts(device["resources"])) if device.get("health", True) else family.zero,
        family.zero,
        place.get("nodeID", -1),
        place.get("pcieID", ""),
        labels_of(device.get("labels") or {}),
        tuple(sorted(functions, key=lambda each: each.bus)),
    )


def grant(family: Family, entry: Mapping[str, Any]) -> Grant:
    extension = entry.get("extension") or {}
    functions = tuple(Function(each["busID"], each.get("minor", 0)) for each in extension.get("vfs", ()))
    template = extension.get("gpuSharedResourceTemplate", "")
    return Grant(entry["minor"], family.vector(amounts(entry["resources"])), functions, template)


def held(allocations: Any) -> dict[str, list[Grant]]:
    """Devices in the form of the annotation."""
    return {kind: [grant(FAMILIES[kind], each) for each in entries] for kind, entries in (allocations or {}).items()}


def slots(inventory: list[dict[str, Any]], holders: Mapping[str, list[Grant]]) -> dict[str, tuple[Slot, ...]]:
    found = {kind: [slot(each) for each in inventory if each["type"] == kind] for kind in FAMILIES}
    return {kind: charge(each, holders.get(kind, ())) for kind, each in found.items() if each}


def node(given: Mapping[str, Any], inventory: list[dict[str, Any]], used: str = "assigned") -> NodeDevices:
    labels, device_labels = given.get("nodeLabels", {}), given.get("deviceLabels", {})
    table = given.get("gpuPartitions")
    annotations = {names.ANNOTATION_GPU_PARTITIONS: json.dumps(table)} if table else {}
    return NodeDevices(
        slots(inventory, held(given.get(used))),
        partition_rules(labels, device_labels, annotations),
        model_key(labels),
        device_labels.get(WELL_PLANNED) == "true",
    )


def templates(table: Any) -> Templates:
    found, problems = read_templates(json.dumps(table))
    assert not problems
    return found


def request(given: Mapping[str, Any], table: Any = None) -> DeviceRequest | Problem:
    annotations = {name: json.dumps(given[key]) for key, name in ANNOTATIONS.items() if key in given}
    return read_request(amounts(given["requests"]), annotations, None if table is None else templates(table))


def scoring(given: Mapping[str, Any]) -> dict[str, Scoring]:
    spec = given.get("scoring")
    if not spec:
        return {}
    return {kind: scoring_of(family, spec["type"], spec["weights"]) for kind, family in FAMILIES.items()}


def written(chosen: Mapping[str, tuple[Grant, ...]]) -> dict[str, list[dict[str, Any]]]:
    """An allocation in the form of the annotation, amounts as integers."""
    return {kind: [_entry(FAMILIES[kind], each) for each in grants] for kind, grants in chosen.items()}


def _entry(family: Family, given: Grant) -> dict[str, Any]:
    entry: dict[str, Any] = {"minor": given.minor, "resources": family.resources(given.amounts)}
    if given.functions:
        entry["extension"] = {"vfs": [{"minor": each.minor, "busID": each.bus} for each in given.functions]}
    if given.template:
        entry["extension"] = {"gpuSharedResourceTemplate": given.template}
    return entry


def expected(allocations: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        kind: [each | {"resources": amounts(each["resources"])} for each in entries]
        for kind, entries in allocations.items()
    }


class FromReservation(NamedTuple):
    """The devices, and the place of the Reservation that they come from in the order; -1: from none."""

    chosen: Chosen
    reservation: int


def in_order_of(
    node: NodeDevices,
    request: DeviceRequest,
    reservations: Sequence[ReservedDevices],
    *,
    taken: Sequence[Held] = (),
    is_required: bool = False,
    is_ignored: bool = False,
    scoring: Mapping[str, Scoring] | None = None,
) -> FromReservation | NoCapacity:
    """The choice of a pod that matches these Reservations, tried in order as the solver does.

    The cases count what a Reservation holds and what its owners have `taken` of it; the product counts it once.
    """
    scores = scoring or {}
    base = without(node, taken)
    if is_ignored:
        found = choose_devices(without(base, [each.left for each in reservations]), request, scoring=scores)
        return found if isinstance(found, NoCapacity) else FromReservation(found, -1)
    refused: NoCapacity | None = None
    for index, each in enumerate(reservations):
        offered, narrowing = offered_by(base, request, each)
        found = choose_devices(offered, request, scoring=scores, narrowing=narrowing)
        if not isinstance(found, NoCapacity):
            return FromReservation(found, index)
        refused = refused or found
    if is_required:
        return refused or NoCapacity("")
    found = choose_devices(base, request, scoring=scores)
    return found if isinstance(found, NoCapacity) else FromReservation(found, -1)
