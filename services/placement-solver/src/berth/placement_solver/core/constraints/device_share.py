"""DeviceShare: devices of the node serve the request, of every kind and at the places that it asks for.

Pods that take any GPUs, by far the most, are answered for all nodes at once; of others the mask lets through what has
enough of each kind, and the choice itself (`berth.rules.devices`) says the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.ledger import Grant as Granted
from berth.placement_solver.core.devices import GPU, MOST_ALLOCATED, NoCapacity, Slot, allocate, scoring_of
from berth.placement_solver.core.devices.asked import Answer, DeviceQuery, query_of
from berth.placement_solver.core.devices.freeing import devices_to_free, what_to_free
from berth.placement_solver.core.devices.record import held_devices
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
from berth.rules.bounded_json import annotation_field
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.columns import FAMILIES
from berth.rules.devices.hints import PCIE_LEVEL
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import read_request
from berth.rules.devices.reserved import RESTRICTED, ReservedDevices, choose_from
from berth.rules.devices.want import Want
from berth.rules.records.device_allocated import DeviceAllocated
from berth.transaction.claims import Claim

UNREAD: Final = "node(s) hold pods whose devices are unknown"
UNCOUNTED: Final = "node(s) whose devices wait to be counted by device-inventory"
INSUFFICIENT: Final = "Insufficient gpu devices"
WAIT: Final = "none is needed; if this lasts, see whether device-inventory and cluster-watcher work"
"""For who may fit once devices are counted."""
PACK: Final = {kind: scoring_of(family, MOST_ALLOCATED) for kind, family in FAMILIES.items()}
"""Of devices that serve alike the fullest is taken."""
_RECORD: Final = DeviceAllocated()


class DeviceShare:
    """The query is the request with what makes it quick."""

    name = "DeviceShare"
    depends = Depends.CAPACITY
    exact = False

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def prefilter(self, spec: Spec) -> DeviceQuery | Unusable | None:
        """See `Constraint`."""
        template = spec.template
        if not _RECORD.asks(template):
            return None
        request = read_request(template.requests, template.annotations)
        if isinstance(request, Problem):
            return Unusable((request,))
        if not request.amounts:
            return None
        field = annotation_field(names.ANNOTATION_DEVICE_HINT)
        problems = tuple(
            Problem(field=f"{field}.{kind}.exclusivePolicy", message=f"{PCIE_LEVEL} is not supported yet")
            for kind, hint in request.hints.items()
            if hint.exclusive == PCIE_LEVEL
        )
        return Unusable(problems) if problems else query_of(request)

    def mask(self, query: DeviceQuery, rows: Rows) -> Mask:
        """See `Constraint`."""
        nodes = self._nodes
        found: Mask = nodes.unreadable[rows] == 0
        for kind, want in query.least:
            found &= nodes.devices.fleet(kind).fits(want, rows)
        return found

    def admits(self, query: DeviceQuery, row: int) -> bool:
        """See `Constraint`."""
        if self._nodes.unreadable[row]:
            return False
        devices = self._nodes.devices
        for kind, want in query.least:
            if not (devices.cards(row).fit(want) if kind == GPU.name else _fit(devices.slots[kind][row], want)):
                return False
        return True

    def filter(self, query: DeviceQuery, target: Target) -> Rejection | None:
        """See `Constraint`."""
        nodes, row = self._nodes, target.row
        gone, there = target.hypothesis
        if nodes.uncounted[row]:
            return Rejection((UNCOUNTED,))
        if int(nodes.unreadable[row]) - _unread(gone) + _unread(there) > 0:
            return Rejection((UNREAD,))
        want = self.plain_want(query, target)
        if want is not None:
            short = isinstance(allocate(self.cards(target), want), NoCapacity)
            return Rejection((INSUFFICIENT,), bool(nodes.gpu_count[row])) if short else None
        answer = self.choose(query, target)
        return Rejection((answer.reason,), not answer.unresolvable) if isinstance(answer, NoCapacity) else None

    def plain_want(self, query: DeviceQuery, target: Target) -> Want | None:
        """What is taken of GPUs where any that are free serve; None where the whole choice has to be asked."""
        want = query.cards if query.is_plain else None
        if want is None or _is_restricted(target):
            return None
        rules = self._nodes.device_rules
        return None if rules and not want.shared and target.row in rules else want

    def cards(self, target: Target) -> tuple[Slot, ...]:
        """The GPUs of the node under the hypothesis."""
        gone, there = target.hypothesis
        if not gone and not there:
            return self._nodes.devices.slots[GPU.name][target.row]
        return self._nodes.devices.under(target.row, (GPU.name,), _grants(gone), _grants(there))[GPU.name]

    def choose(self, query: DeviceQuery, target: Target) -> Answer:
        """The devices of the node under the hypothesis that the pod gets, or why there are none."""
        hypothesis, row = target.hypothesis, target.row
        if hypothesis.gone or hypothesis.there or target.reservation:
            return self._choose(query, target)
        version = self._nodes.devices.versions[row]
        known = query.known.get(row)
        if known is not None and known[0] == version:
            return known[1]
        answer = self._choose(query, target)
        query.remember(row, version, answer)
        return answer

    def _choose(self, query: DeviceQuery, target: Target) -> Answer:
        request, (gone, there) = query.request, target.hypothesis
        left = [claim for claim in gone if target.reservation and claim.uid == target.reservation]
        others = [claim for claim in gone if claim not in left] if left else gone
        node = self._node(query, target.row, others, there)
        if not target.reservation:
            return choose_devices(node, request, scoring=PACK)
        reservation = ReservedDevices(
            policy=RESTRICTED if _is_restricted(target) else "",
            reserved=held_devices(target.held),
            taken={},
            left=held_devices(_grants(left)),
        )
        return choose_from(node, request, reservation, scoring=PACK)

    def _node(
        self, query: DeviceQuery, row: int, gone: Iterable[Claim] = (), there: Iterable[Claim] = ()
    ) -> NodeDevices:
        nodes = self._nodes
        slots = nodes.devices.under(row, query.request.amounts, _grants(gone), _grants(there))
        rules = nodes.device_rules.get(row)
        return NodeDevices(slots) if rules is None else NodeDevices(slots, rules.partitions)

    def rejections(self, query: DeviceQuery, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        nodes = self._nodes
        if not query.is_plain or query.cards is None or nodes.device_rules:
            return self._one_by_one(query, rows)
        uncounted: Mask = nodes.uncounted[rows]
        unread: Mask = (nodes.unreadable[rows] > 0) & ~uncounted
        short: Mask = ~(unread | uncounted) & ~nodes.fleet.fits(query.cards, rows)
        has_any: Mask = nodes.gpu_count[rows] > 0
        return [
            Rejected(INSUFFICIENT, short & has_any),
            Rejected(INSUFFICIENT, short & ~has_any, resolvable=False),
            Rejected(UNREAD, unread),
            Rejected(UNCOUNTED, uncounted, repair=WAIT),
        ]

    def _one_by_one(self, query: DeviceQuery, rows: RowArray) -> list[Rejected]:
        found: dict[tuple[str, bool], list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            rejection = self.filter(query, Target(row))
            if rejection is not None:
                found.setdefault((rejection.reasons[0], rejection.resolvable), []).append(place)
        rejected: list[Rejected] = []
        for (reason, resolvable), places in found.items():
            mask = np.zeros(rows.shape, np.bool_)
            mask[places] = True
            rejected.append(Rejected(reason, mask, resolvable, WAIT if reason == UNCOUNTED else ""))
        return rejected

    def distance(self, query: DeviceQuery, rows: RowArray, counts: RowArray) -> Floats:
        """See `Freeable`."""
        nodes = self._nodes
        distance = np.where(nodes.unreadable[rows] > 0, 1000.0, 0.0)
        for kind, want in query.least:
            fleet = nodes.devices.fleet(kind)
            ready = np.count_nonzero(fleet.candidates(want, rows), axis=0)
            distance += np.maximum(counts * want.instances - ready, 0) / want.instances
            distance[fleet.count[rows] < want.instances] = np.inf
        return distance

    def lacking(self, query: DeviceQuery, row: int, count: int) -> Lacking | None:
        """See `Freeable`."""
        nodes, less = self._nodes, ""
        want = self.plain_want(query, Target(row))
        if want is not None:
            freed = devices_to_free(nodes.devices.slots[GPU.name][row], want, count)
            words = freed.words if freed is not None else None
            left = want.instances - freed.devices if freed is not None and freed.devices and not want.shared else 0
            less = ("1 GPU" if left == 1 else f"{left} GPUs") if left > 0 else ""
        else:
            words = what_to_free(self._node(query, row), query.request, count, PACK)
        if words is None:
            return None
        if nodes.unreadable[row]:
            return Lacking(things=(*words, "the devices of pods that do not say which"))
        return Lacking(things=tuple(words), less=less)

    def shares_node(self, query: DeviceQuery) -> bool:
        """See `Freeable`."""
        return True


def _fit(slots: Iterable[Slot], want: Want) -> bool:
    """Whether enough devices have that much free; what `Fleet.fits` says of one row."""
    enough = 0
    for slot in slots:
        if all(free >= amount for free, amount in zip(slot.free, want.amounts, strict=True)):
            enough += 1
    return enough >= want.instances


def _is_restricted(target: Target) -> bool:
    """Whether devices may come from the reservation alone."""
    return not target.restricted.isdisjoint(_RECORD.resources)


def _unread(claims: Iterable[Claim]) -> int:
    return sum(1 for claim in claims if DeviceAllocated.name in claim.unreadable)


def _grants(claims: Iterable[Claim]) -> list[Granted]:
    return [grant for claim in claims for grant in claim.grants]
