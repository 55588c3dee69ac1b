"""What a node says about giving out its devices, beside which there are."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node
from berth.rules.devices.columns import GPU
from berth.rules.devices.partitions import HONOR, NO_RULES, Partition, PartitionRules, partition_rules
from berth.rules.devices.templates import model_key
from berth.rules.devices.vendor_limits import Limit
from berth.vendors.registry import REGISTRY


class NodeRules(NamedTuple):
    """`partitions`: the groups that whole GPUs are given out in. `npu_model`: of a node with NPUs, what the table of
    sizes calls them. `limit`: of a device plugin that can be told some choices only.
    """

    partitions: PartitionRules = NO_RULES
    npu_model: str = ""
    limit: Limit | None = None

    @property
    def narrows_shares(self) -> bool:
        """Whether not any card may be shared by anybody."""
        return bool(self.npu_model) or self.limit is not None


PLAIN: Final = NodeRules()
"""Any devices may be taken."""


def node_rules(
    node: Node | None, inventory: NodeInventory | None, handed_off: frozenset[str] = frozenset()
) -> NodeRules:
    """The rules of a node; the table of its Device goes before what is known of its model. `handed_off`: vendors whose
    device plugins are told what was chosen."""
    vendor = REGISTRY.of(GPU.name, inventory.gpu_vendor) if inventory is not None else None
    limit = vendor.limit if vendor is not None and vendor.name in handed_off else None
    return NodeRules(_partitions(node, inventory), _npu_model(node, inventory), limit)


def _npu_model(node: Node | None, inventory: NodeInventory | None) -> str:
    if node is None or inventory is None:
        return ""
    has_npus = any(slot.kind == GPU.name and slot.amounts.get(names.NPU_CORE) for slot in inventory.devices)
    return model_key(node.labels) if has_npus else ""


def _partitions(node: Node | None, inventory: NodeInventory | None) -> PartitionRules:
    if inventory is not None and inventory.partition_policy:
        table: dict[int, list[Partition]] = {}
        for each in inventory.partitions:
            minors = tuple(each.minors)
            table.setdefault(len(minors), []).append(Partition(minors, each.score, each.bandwidth, each.link))
        return PartitionRules(table or None, inventory.partition_policy == HONOR)
    return partition_rules(node.labels, {}, {}) if node is not None else NO_RULES
