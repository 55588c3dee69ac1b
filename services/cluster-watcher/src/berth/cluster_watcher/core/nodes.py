"""v1 Node: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.cluster_watcher.core.findings import Found, problems_of
from berth.cluster_watcher.core.metadata import carried, identity_of
from berth.contracts import state
from berth.contracts.kube import Node
from berth.resources.amounts import parse_amounts


def node_of(item: Node, version: int) -> state.Node:
    """The node; an amount that cannot be read is left out, so that nothing is placed on it."""
    found: Found = []
    meta, status = item.metadata, item.status
    allocatable, unread_allocatable = parse_amounts(status.allocatable, "status.allocatable")
    capacity, unread_capacity = parse_amounts(status.capacity, "status.capacity")
    found += unread_allocatable + unread_capacity
    return state.Node(
        name=identity_of(meta, found).name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
        allocatable=allocatable,
        capacity=capacity,
        taints=item.spec.taints or [],
        unschedulable=item.spec.unschedulable,
        ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions or ()),
        deleting=meta.deletion_timestamp is not None,
        created=meta.creation_timestamp or "",
        problems=problems_of(found),
    )
