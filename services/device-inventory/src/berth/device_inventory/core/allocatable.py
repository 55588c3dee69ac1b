"""What a node's status has to say about its devices, and whether it says so.

Ordinary tools (fit checks, quotas, autoscalers, `kubectl describe`) see devices as sums per node. The sums are
Koordinator's: named GPU resources added over healthy GPUs, `koordinator.sh/gpu` beside them for NVIDIA, 100 per
healthy RDMA device. Names of vendor device plugins (`nvidia.com/gpu`) are never written; they are the kubelet's.

The comparison is with what the node shows now, so that a kubelet which registers again and drops the names is repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts import names
from berth.contracts.command import PatchNode
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device, Node
from berth.device_inventory.core.check import gpu_label
from berth.resources.amounts import format_amount, without_zeros

SUMMED: Final = (
    names.GPU_CORE,
    names.GPU_MEMORY,
    names.GPU_MEMORY_RATIO,
    names.NPU_CORE,
    names.NPU_CPU,
    names.NPU_DVPP,
)
GPU_NAMES: Final = frozenset({*SUMMED, names.KOORD_GPU, names.GPU_SHARED})
OWNED: Final = GPU_NAMES | {names.RDMA}
"""Every resource name of a node's status that this service decides about."""
LABELS: Final = (names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL, names.LABEL_GPU_DRIVER)


def device_sums(inventory: NodeInventory | None, *, publish_shared: bool) -> dict[str, int]:
    """Resource sums of a node, by name; names of `OWNED` that are missing here have to go from the node."""
    if inventory is None:
        return {}
    gpus = [slot for slot in inventory.devices if slot.kind == "gpu" and slot.healthy]
    sums: dict[str, int] = {}
    for slot in gpus:
        for name in SUMMED:
            if name in slot.amounts:
                sums[name] = sums.get(name, 0) + slot.amounts[name]
    if names.GPU_CORE in sums and inventory.gpu_vendor in ("", "nvidia"):
        sums[names.KOORD_GPU] = sums[names.GPU_CORE]
    if gpus and publish_shared:
        sums[names.GPU_SHARED] = 100 * len(gpus)
    nics = sum(slot.kind == "rdma" and slot.healthy for slot in inventory.devices)
    if nics:
        sums[names.RDMA] = 100 * nics
    return sums


def needs_sync(old: Mapping[str, int], new: Mapping[str, int], threshold: float) -> bool:
    """Whether a name appeared or vanished, or an amount moved by more than `threshold` of the old one."""
    if old.keys() != new.keys():
        return True
    return any(abs(new[name] - old[name]) > old[name] * threshold for name in new)


def node_patch(
    node: Node, device: Device | None, inventory: NodeInventory | None, *, publish_shared: bool, threshold: float
) -> PatchNode | None:
    """The patch that brings the node's status and labels in line, None if they are.

    Labels are written while there is a healthy GPU and never removed: they describe the machine, which is still the
    same when its agent is away.
    """
    sums = device_sums(inventory, publish_shared=publish_shared)
    shown = [{name: amounts[name] for name in OWNED & amounts.keys()} for amounts in (node.allocatable, node.capacity)]
    resources: dict[str, str | None] = {}
    # A zero and a missing name mean the same to everybody: the kubelet turns one into the other.
    if any(needs_sync(without_zeros(old), without_zeros(sums), threshold) for old in shown):
        resources = {name: format_amount(name, amount) for name, amount in sorted(sums.items())}
        resources |= dict.fromkeys(sorted((shown[0].keys() | shown[1].keys()) - sums.keys()))
    wanted = _gpu_labels(device, inventory)
    labels: dict[str, str | None] = {name: value for name, value in wanted.items() if node.labels.get(name) != value}
    if not resources and not labels:
        return None
    return PatchNode(name=node.name, uid=node.uid, resources=resources, labels=labels)


def _gpu_labels(device: Device | None, inventory: NodeInventory | None) -> dict[str, str]:
    if device is None or inventory is None:
        return {}
    if not any(slot.kind == "gpu" and slot.healthy for slot in inventory.devices):
        return {}
    labels = {name: gpu_label(device.labels, name) for name in LABELS}
    return {name: value for name, value in labels.items() if value}
