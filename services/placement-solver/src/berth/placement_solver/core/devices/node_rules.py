"""What a node says about giving out its devices, beside which there are."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node
from berth.rules.devices.partitions import HONOR, NO_RULES, Partition, PartitionRules, partition_rules


class NodeRules(NamedTuple):
    """`partitions`: the groups that whole GPUs are given out in."""

    partitions: PartitionRules = NO_RULES


PLAIN: Final = NodeRules()
"""Any devices may be taken."""


def node_rules(node: Node | None, inventory: NodeInventory | None) -> NodeRules:
    """The rules of a node; the table of its Device goes before what is known of its model."""
    if inventory is not None and inventory.partition_policy:
        table: dict[int, list[Partition]] = {}
        for each in inventory.partitions:
            minors = tuple(each.minors)
            table.setdefault(len(minors), []).append(Partition(minors, each.score, each.bandwidth, each.link))
        return NodeRules(PartitionRules(table or None, inventory.partition_policy == HONOR))
    return NodeRules(partition_rules(node.labels, {}, {})) if node is not None else PLAIN
