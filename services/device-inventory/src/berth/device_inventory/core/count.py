"""From a Device object to the inventory of its node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.state import Device
from berth.device_inventory.core.check import check, gpu_label, limited
from berth.device_inventory.core.partitions import partitions_of
from berth.rules.device_cordon import REASON, read_device_cordon
from berth.rules.devices.kubelet_cards import read_kubelet_cards

CORDON_PROBLEMS_MAX: Final = 10


def inventory_of(device: Device, annotations: Mapping[str, str] | None = None) -> NodeInventory:
    """The devices of the node that the object is named after, with totals of the healthy ones.

    `annotations` are the node's: devices that they cordon are listed as unhealthy, for that reason.
    """
    checked = check(device)
    partitions = partitions_of(device.labels, device.annotations)
    slots, problems = _cordoned(checked.slots, annotations or {})
    cards = read_kubelet_cards(device.annotations)
    unread = [cards] if isinstance(cards, Problem) else []
    return NodeInventory(
        node=device.name,
        version=device.version,
        devices=slots,
        totals=totals(slots),
        gpu_model=gpu_label(device.labels, names.LABEL_GPU_MODEL),
        gpu_vendor=gpu_label(device.labels, names.LABEL_GPU_VENDOR),
        partition_policy=partitions.policy,
        partitions=list(partitions.table),
        problems=limited([*checked.problems, *partitions.problems, *problems, *unread]),
        kubelet_cards={} if isinstance(cards, Problem) else {uid: list(minors) for uid, minors in cards.items()},
    )


def _cordoned(slots: list[DeviceSlot], annotations: Mapping[str, str]) -> tuple[list[DeviceSlot], Sequence[Problem]]:
    cordon, problems = read_device_cordon(annotations)
    if not cordon.places and not cordon.ids:
        return slots, problems[:CORDON_PROBLEMS_MAX]
    marked = [
        replace(slot, healthy=False, reason=REASON) if cordon.covers(slot.kind, slot.minor, slot.uuid) else slot
        for slot in slots
    ]
    unknown = cordon.unknown((slot.kind, slot.minor, slot.uuid) for slot in slots)
    return marked, (*problems, *unknown)[:CORDON_PROBLEMS_MAX]


def totals(slots: Iterable[DeviceSlot]) -> dict[str, int]:
    """Sum of each resource over healthy devices."""
    sums: dict[str, int] = {}
    for slot in slots:
        if slot.healthy:
            for name, amount in slot.amounts.items():
                sums[name] = sums.get(name, 0) + amount
    return dict(sorted(sums.items()))
