"""The choice of devices for a pod that may use Reservations which hold devices of the node.

What a Reservation holds and what its owners have taken of it are both counted as used, so both are given back where
they would count twice. Reservations are tried in order; what is left of the others is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.devices.candidates import EVERYTHING, Narrowing
from berth.rules.devices.choose import NO_NARROWING, NO_SCORING, choose_devices
from berth.rules.devices.joint import Chosen
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.scoring import Scoring
from berth.rules.devices.slots import Grant, NoCapacity, Slot, release

RESTRICTED: Final = "Restricted"

Held = Mapping[str, Sequence[Grant]]
"""Devices by type."""


class ReservedDevices(NamedTuple):
    """A Reservation that the pod may use: what it holds, what its owners have taken of that, and what is left.

    `policy` is that of the Reservation. Restricted: of the types that it holds nothing else is used. Else (Aligned,
    Default) the rest may come from the node.
    """

    policy: str
    reserved: Held
    taken: Held
    left: Held


class FromReservation(NamedTuple):
    """The devices, and the place of the Reservation that they come from in the order; -1: from none."""

    chosen: Chosen
    reservation: int


def choose_reserved(
    node: NodeDevices,
    request: DeviceRequest,
    reservations: Sequence[ReservedDevices],
    *,
    is_required: bool = False,
    is_ignored: bool = False,
    scoring: Mapping[str, Scoring] = NO_SCORING,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
) -> FromReservation | NoCapacity:
    """The devices of a pod that matches these Reservations, in the order in which they are to be tried.

    `node` counts as used what pods and Reservations hold, each in full. `is_required`: without a Reservation the pod
    gets nothing. `is_ignored`: it uses what is left of all of them, as if they were not there.
    """
    base = _without(node, [each.taken for each in reservations])
    if is_ignored:
        everything = _without(base, [each.left for each in reservations])
        found = choose_devices(everything, request, scoring=scoring, narrowing=narrowing)
        return found if isinstance(found, NoCapacity) else FromReservation(found, -1)
    failed: NoCapacity | None = None
    for index, each in enumerate(reservations):
        found = choose_from(base, request, each, scoring=scoring, narrowing=narrowing)
        if not isinstance(found, NoCapacity):
            return FromReservation(found, index)
        failed = failed or found
    if is_required:
        reason = failed.reason if failed is not None else "cannot be found"
        return NoCapacity(f"Reservation(s) {reason}")
    found = choose_devices(base, request, scoring=scoring, narrowing=narrowing)
    return found if isinstance(found, NoCapacity) else FromReservation(found, -1)


def choose_from(
    node: NodeDevices,
    request: DeviceRequest,
    reservation: ReservedDevices,
    *,
    scoring: Mapping[str, Scoring] = NO_SCORING,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
) -> Chosen | NoCapacity:
    """The devices of a pod that draws on this one. `node` counts what is left of it as used, and what its owners have
    taken once.
    """
    offered, narrowed = offered_by(node, request, reservation, narrowing)
    return choose_devices(offered, request, scoring=scoring, narrowing=narrowed)


def offered_by(
    node: NodeDevices,
    request: DeviceRequest,
    reservation: ReservedDevices,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
) -> tuple[NodeDevices, dict[str, Narrowing]]:
    """What the node has for a pod that draws on this one, and how that narrows the choice."""
    offered = _without(node, [reservation.left])
    if reservation.policy == RESTRICTED:
        offered = _limited(offered, reservation)
    return offered, _narrowed(narrowing, reservation, request)


def give_back(node: NodeDevices, victims: Sequence[Held]) -> NodeDevices:
    """The node without what these pods hold."""
    return _without(node, victims)


def _without(node: NodeDevices, given: Sequence[Held]) -> NodeDevices:
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
