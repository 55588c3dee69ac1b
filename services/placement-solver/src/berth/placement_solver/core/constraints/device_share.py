"""DeviceShare: enough devices of the node have what each instance of the request takes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.contracts.base import Problem
from berth.contracts.ledger import Grant as Granted
from berth.placement_solver.core.devices import GPU, Grant, NoCapacity, Slot, Want, allocate, charge, gpu_want, release
from berth.placement_solver.core.devices.freeing import devices_to_free
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    Depends,
    Floats,
    Lacking,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.rules.device_request import device_requests
from berth.rules.records.device_allocated import DeviceAllocated
from berth.transaction.claims import Claim

UNREAD = "node(s) hold GPU pods whose minors are unknown"
UNCOUNTED = "node(s) whose devices wait to be counted by device-inventory"
INSUFFICIENT = "Insufficient gpu devices"
WAIT = "none is needed; if this lasts, see whether device-inventory and cluster-watcher work"
"""For who may fit once devices are counted."""


class DeviceShare:
    """The query is what is taken from how many devices."""

    name = "DeviceShare"
    depends = Depends.CAPACITY
    exact = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> Want | Unusable | None:
        """See `Constraint`."""
        devices = device_requests(spec.template.requests)
        if isinstance(devices, Problem):
            return Unusable((devices,))
        return gpu_want(devices["gpu"]) if "gpu" in devices else None

    def mask(self, query: Want, rows: Rows) -> Mask:
        """See `Constraint`."""
        nodes = self._nodes
        found: Mask = nodes.fleet.fits(query, rows) & (nodes.unreadable[rows] == 0)
        return found

    def admits(self, query: Want, row: int) -> bool:
        """See `Constraint`."""
        return not self._nodes.unreadable[row] and self._nodes.cards(row).fit(query)

    def filter(self, query: Want, target: Target) -> Rejection | None:
        """See `Constraint`."""
        nodes, row = self._nodes, target.row
        gone, there = target.hypothesis
        unread = int(nodes.unreadable[row]) - _unread(gone) + _unread(there)
        if nodes.uncounted[row]:
            return Rejection((UNCOUNTED,))
        if unread > 0:
            return Rejection((UNREAD,))
        found = allocate(self.slots(target), query)
        has_any = bool(nodes.gpu_count[row])
        return Rejection((INSUFFICIENT,), has_any) if isinstance(found, NoCapacity) else None

    def slots(self, target: Target) -> tuple[Slot, ...]:
        """The devices of the node under the hypothesis."""
        slots = self._nodes.slots[target.row]
        gone, there = target.hypothesis
        for claim in gone:
            slots = release(slots, grants_of(claim.grants))
        for claim in there:
            slots = charge(slots, grants_of(claim.grants))
        return slots

    def rejections(self, query: Want, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        nodes = self._nodes
        uncounted: Mask = nodes.uncounted[rows]
        unread: Mask = (nodes.unreadable[rows] > 0) & ~uncounted
        short: Mask = ~(unread | uncounted) & ~nodes.fleet.fits(query, rows)
        has_any: Mask = nodes.gpu_count[rows] > 0
        return [
            Rejected(INSUFFICIENT, short & has_any),
            Rejected(INSUFFICIENT, short & ~has_any, resolvable=False),
            Rejected(UNREAD, unread),
            Rejected(UNCOUNTED, uncounted, repair=WAIT),
        ]

    def distance(self, query: Want, rows: RowArray, counts: RowArray) -> Floats:
        """See `Freeable`."""
        nodes = self._nodes
        ready = np.count_nonzero(nodes.fleet.candidates(query, rows), axis=0)
        distance = np.maximum(counts * query.instances - ready, 0) / query.instances
        distance += 1000.0 * (nodes.unreadable[rows] > 0)
        return np.where(nodes.gpu_count[rows] >= query.instances, distance, np.inf)

    def lacking(self, query: Want, row: int, count: int) -> Lacking | None:
        """See `Freeable`."""
        found = devices_to_free(self._nodes.slots[row], query, count)
        if found is None:
            return None
        if self._nodes.unreadable[row]:
            return Lacking(things=(*found.words, "the GPUs of pods that do not say which"))
        left = query.instances - found.devices if found.devices and not query.shared else 0
        less = ("1 GPU" if left == 1 else f"{left} GPUs") if left > 0 else ""
        return Lacking(things=tuple(found.words), less=less)

    def shares_node(self, query: Want) -> bool:
        """See `Freeable`."""
        return True


def _unread(claims: Iterable[Claim]) -> int:
    return sum(1 for claim in claims if DeviceAllocated.name in claim.unreadable)


def grants_of(grants: tuple[Granted, ...]) -> list[Grant]:
    """The GPUs among the grants of a claim."""
    return [Grant(each.minor, GPU.vector(each.amounts)) for each in grants if each.kind == GPU.name]
