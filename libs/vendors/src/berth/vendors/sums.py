"""What a node's status shows of its devices: sums over healthy ones, and whether they have to be written.

Named resources of accelerators are added whatever vendor reports them; what stands beside them is the vendor's. Names
of device plugins (`nvidia.com/gpu`) are never written: they are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts import names
from berth.contracts.inventory import NodeInventory
from berth.vendors.registry import REGISTRY, Registry
from berth.vendors.vendor import WHOLE

LABELS: Final = (names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL, names.LABEL_GPU_DRIVER)
"""Labels of the Device that its node gets as well."""


def owned(registry: Registry = REGISTRY, kind: str | None = None) -> frozenset[str]:
    """Every resource name of a node's status that is decided by its devices, or by those of one kind."""
    own = [vendor for vendor in registry if kind in (None, vendor.kind)]
    found = {name for vendor in own for name in (*vendor.summed, *vendor.doubled, *vendor.fixed)}
    return frozenset(found | ({names.GPU_SHARED} if any(vendor.kind == "gpu" for vendor in own) else set()))


def device_sums(
    inventory: NodeInventory | None, *, publish_shared: bool, registry: Registry = REGISTRY
) -> dict[str, int]:
    """Resource sums of a node, by name; names of `owned` that are missing here have to go from the node."""
    if inventory is None:
        return {}
    sums: dict[str, int] = {}
    for kind in sorted({slot.kind for slot in inventory.devices}):
        slots = [slot for slot in inventory.devices if slot.kind == kind and slot.healthy]
        for name in {name for vendor in registry if vendor.kind == kind for name in vendor.summed}:
            if any(name in slot.amounts for slot in slots):
                sums[name] = sum(slot.amounts.get(name, 0) for slot in slots)
        vendor = registry.of(kind, inventory.gpu_vendor)
        if vendor is not None and slots:
            sums |= {name: sums[of] for name, of in vendor.doubled.items() if of in sums}
            sums |= {name: each * len(slots) for name, each in vendor.fixed.items()}
        if kind == "gpu" and slots and publish_shared:
            sums[names.GPU_SHARED] = WHOLE * len(slots)
    return sums


def needs_sync(old: Mapping[str, int], new: Mapping[str, int], threshold: float) -> bool:
    """Whether a name appeared or vanished, or an amount moved by more than `threshold` of the old one."""
    if old.keys() != new.keys():
        return True
    return any(abs(new[name] - old[name]) > old[name] * threshold for name in new)
