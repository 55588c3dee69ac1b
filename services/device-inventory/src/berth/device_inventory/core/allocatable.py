"""What a node's status has to say about its devices, and whether it says so.

Ordinary tools (fit checks, quotas, autoscalers, `kubectl describe`) see devices as sums per node. What is summed is
said by the vendors (`berth.vendors.sums`).

The comparison is with what the node shows now, so that a kubelet which registers again and drops the names is repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.command import PatchNode
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device, Node
from berth.device_inventory.core.check import gpu_label
from berth.resources.amounts import format_amount, without_zeros
from berth.vendors.sums import LABELS, device_sums, needs_sync, owned

OWNED: Final = owned()
"""Every resource name of a node's status that this service decides about."""


def node_patch(
    node: Node,
    device: Device | None,
    inventory: NodeInventory | None,
    *,
    publish_shared: bool,
    threshold: float,
    labels: Mapping[str, str | None] = {},
) -> PatchNode | None:
    """The patch that brings the node's status and labels in line, None if they are. `labels` are to be changed as well.

    Labels of GPUs are written while there is a healthy GPU and never removed: they describe the machine, which is still
    the same when its agent is away.
    """
    sums = device_sums(inventory, publish_shared=publish_shared)
    shown = [{name: amounts[name] for name in OWNED & amounts.keys()} for amounts in (node.allocatable, node.capacity)]
    resources: dict[str, str | None] = {}
    # A zero and a missing name mean the same to everybody: the kubelet turns one into the other.
    if any(needs_sync(without_zeros(old), without_zeros(sums), threshold) for old in shown):
        resources = {name: format_amount(name, amount) for name, amount in sorted(sums.items())}
        resources |= dict.fromkeys(sorted((shown[0].keys() | shown[1].keys()) - sums.keys()))
    wanted = _gpu_labels(device, inventory)
    changed = {**labels, **{name: value for name, value in wanted.items() if node.labels.get(name) != value}}
    if not resources and not changed:
        return None
    return PatchNode(name=node.name, uid=node.uid, resources=resources, labels=changed)


def _gpu_labels(device: Device | None, inventory: NodeInventory | None) -> dict[str, str]:
    if device is None or inventory is None:
        return {}
    if not any(slot.kind == "gpu" and slot.healthy for slot in inventory.devices):
        return {}
    labels = {name: gpu_label(device.labels, name) for name in LABELS}
    return {name: value for name, value in labels.items() if value}
