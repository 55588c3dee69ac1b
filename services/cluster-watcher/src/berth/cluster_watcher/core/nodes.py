"""v1 Node: from the API server's object to what STATE says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.contracts import state
from berth.contracts.kube import ContainerImage, Node
from berth.resources.amounts import parse_amounts
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.cpus.node_reservation import read_node_reservation, trimmed
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import carried, identity_of

IMAGES_MAX: Final = 50
"""What kubelet's `nodeStatusMaxImages` is by default."""
IMAGE_NAMES_MAX: Final = 5
IMAGE_LENGTH_MAX: Final = 1024


def node_of(item: Node, version: int) -> state.Node:
    """The node, with what it leaves to pods; an amount that cannot be read is left out, so that nothing is placed on
    it."""
    found: Found = []
    meta, status = item.metadata, item.status
    allocatable, unread_allocatable = parse_amounts(status.allocatable, "status.allocatable")
    capacity, unread_capacity = parse_amounts(status.capacity, "status.capacity")
    found += unread_allocatable + unread_capacity
    reservation, problem = read_node_reservation(meta.annotations or {})
    if problem is not None:
        found.append((problem.field, problem.message))
    return state.Node(
        name=identity_of(meta, found).name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
        allocatable=trimmed(allocatable, reservation),
        capacity=capacity,
        taints=item.spec.taints or [],
        unschedulable=item.spec.unschedulable,
        ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions or ()),
        deleting=meta.deletion_timestamp is not None,
        created=meta.creation_timestamp or "",
        images=_images(status.images or ()),
        problems=problems_of(found),
    )


def _images(images: Sequence[ContainerImage]) -> dict[str, int]:
    """The size of each image by its names, as many as a kubelet reports by default."""
    return {
        name: max(0, min(AMOUNT_MAX, image.size_bytes))
        for image in images[:IMAGES_MAX]
        for name in (image.names or ())[:IMAGE_NAMES_MAX]
        if 0 < len(name) <= IMAGE_LENGTH_MAX
    }
