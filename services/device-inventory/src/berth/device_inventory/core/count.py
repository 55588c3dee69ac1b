"""From a Device object to the inventory of its node."""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts import names
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.state import Device
from berth.device_inventory.core.check import check, gpu_label, limited
from berth.device_inventory.core.partitions import partitions_of


def inventory_of(device: Device) -> NodeInventory:
    """The devices of the node that the object is named after, with totals of the healthy ones."""
    checked = check(device)
    partitions = partitions_of(device.labels, device.annotations)
    return NodeInventory(
        node=device.name,
        version=device.version,
        devices=checked.slots,
        totals=totals(checked.slots),
        gpu_model=gpu_label(device.labels, names.LABEL_GPU_MODEL),
        gpu_vendor=gpu_label(device.labels, names.LABEL_GPU_VENDOR),
        partition_policy=partitions.policy,
        partitions=list(partitions.table),
        problems=limited([*checked.problems, *partitions.problems]),
    )


def totals(slots: Iterable[DeviceSlot]) -> dict[str, int]:
    """Sum of each resource over healthy devices."""
    sums: dict[str, int] = {}
    for slot in slots:
        if slot.healthy:
            for name, amount in slot.amounts.items():
                sums[name] = sums.get(name, 0) + amount
    return dict(sorted(sums.items()))
