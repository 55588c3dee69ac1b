"""INVENTORY against the topology objects: which CPUs of each node pods may have as their own, and what NUMA nodes have.

Read as the observer does, with no code of device-inventory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tests.simulation.harness import Harness
from tests.simulation.settled.held import messages, objects

from berth.contracts import buckets, kube, subjects
from berth.contracts.topology import NodeTopology
from berth.invariants import Counts
from berth.invariants.layouts import Layout, layout_of


def topologies(harness: Harness, counts: Counts) -> Iterator[str]:
    """Nodes of which INVENTORY says something else than their topology object."""
    said = messages(harness.nats, buckets.INVENTORY, NodeTopology, "topology.")
    there = {
        subjects.named_key("topology", name): msgspec.convert(obj.data, kube.NodeResourceTopology)
        for name, obj in objects(harness, "topology.node.k8s.io", "noderesourcetopologies").items()
    }
    for key in sorted(said.keys() | there.keys()):
        counts.judged("I8")
        if key not in there or key not in said:
            yield f"INVENTORY {'shows' if key in said else 'does not show'} {key}, of which the object is not so"
            continue
        wanted, found = layout_of(there[key], {}), _layout(said[key])
        if wanted != found:
            yield f"INVENTORY, {key}: is {wanted}, shown as {found}"


def _layout(said: NodeTopology) -> Layout:
    cpus = frozenset(cpu for core in said.cores for cpu in core.cpus) - frozenset(said.reserved)
    zones = {(str(each.zone), name): amount for each in said.zones for name, amount in each.amounts.items()}
    return Layout(cpus, zones)
