"""The choice of devices for a pod that draws on a Reservation which holds devices of the node.

What is left of the Reservation is counted as used, and given back for the pod; what is left of others is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.devices.candidates import EVERYTHING, Narrowing
from berth.rules.devices.choose import NO_NARROWING
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.slots import Grant, Slot, release

RESTRICTED: Final = "Restricted"

Held = Mapping[str, Sequence[Grant]]
"""Devices by type."""


class ReservedDevices(NamedTuple):
    """A Reservation that the pod may use: what it holds, and what is left of that.

    `policy` is that of the Reservation. Restricted: of the types that it holds nothing else is used. Else (Aligned,
    Default) the rest may come from the node.
    """

    policy: str
    reserved: Held
    left: Held


def offered_by(
    node: NodeDevices,
    request: DeviceRequest,
    reservation: ReservedDevices,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
) -> tuple[NodeDevices, dict[str, Narrowing]]:
    """What the node has for a pod that draws on this one, and how that narrows the choice.

    `node` counts what is left of it as used.
    """
    offered = without(node, [reservation.left])
    if reservation.policy == RESTRICTED:
        offered = _limited(offered, reservation)
    return offered, _narrowed(narrowing, reservation, request)


def without(node: NodeDevices, given: Sequence[Held]) -> NodeDevices:
    """The node with all that given back."""
    slots = {
        kind: release(each, [grant for held in given for grant in held.get(kind, ())])
        for kind, each in node.slots.items()
    }
    return node._replace(slots=slots)


def _limited(node: NodeDevices, reservation: ReservedDevices) -> NodeDevices:
    """The node with no more free of each device than is left of the reservation."""
    slots: dict[str, Sequence[Slot]] = {}
    for kind, each in node.slots.items():
        if kind not in reservation.reserved:
            slots[kind] = each
            continue
        left = {grant.minor: grant for grant in reservation.left.get(kind, ())}
        slots[kind] = [_capped(slot, left.get(slot.minor)) for slot in each]
    return node._replace(slots=slots)


def _capped(slot: Slot, left: Grant | None) -> Slot:
    amounts = left.amounts if left is not None else (0,) * len(slot.total)
    mine = {function.bus for function in left.functions} if left is not None else set()
    free = map(min, slot.free, amounts)
    used = tuple(total - each for total, each in zip(slot.total, free, strict=True))
    others = frozenset(function.bus for function in slot.functions if function.bus not in mine)
    return slot._replace(used=used, busy=slot.busy | others)


def _narrowed(
    narrowing: Mapping[str, Narrowing], reservation: ReservedDevices, request: DeviceRequest
) -> dict[str, Narrowing]:
    """Its devices first, or nothing but them; a type that it does not hold comes from the node."""
    narrowed = dict(narrowing)
    for kind in request.amounts:
        before = narrowed.get(kind, EVERYTHING)
        minors = frozenset(grant.minor for grant in reservation.reserved.get(kind, ()))
        if reservation.policy == RESTRICTED and kind in reservation.reserved:
            allowed = minors if before.required is None else before.required & minors
            narrowed[kind] = before._replace(required=allowed)
        else:
            narrowed[kind] = before._replace(preferred=minors)
    return narrowed
