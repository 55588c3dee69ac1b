"""Devices of Reservations, and what devices say of NUMA nodes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.rules.devices.given import FromReservation, in_order_of

from berth.contracts import names
from berth.rules.devices.hints import Hint
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.numa_hints import ZONES_MAX, DeviceHint, choose_on, device_hints
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.reserved import RESTRICTED, ReservedDevices
from berth.rules.devices.slots import Function, Grant, NoCapacity, Slot

WHOLE = (100, 100, 1000, 0, 0, 0)
HALF = (50, 50, 500, 0, 0, 0)


def asked(percent: int) -> DeviceRequest:
    return DeviceRequest({"gpu": {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent}})


def cards(*used: int) -> NodeDevices:
    return NodeDevices(
        {"gpu": [Slot(at, WHOLE, (part, part, part * 10, 0, 0, 0), 0, "A") for at, part in enumerate(used)]}
    )


def reserving(policy: str, minor: int, left: tuple[int, ...] = HALF) -> ReservedDevices:
    return ReservedDevices(policy, {"gpu": [Grant(minor, HALF)]}, {"gpu": [Grant(minor, left)]})


def minor(answer: Any) -> tuple[int, int]:
    assert isinstance(answer, FromReservation), answer
    return answer.chosen["gpu"][0].minor, answer.reservation


def test_the_reserved_device_is_preferred_on_a_node_with_places() -> None:
    assert minor(in_order_of(cards(0, 0, 50), asked(50), [reserving("", 2)])) == (2, 0)


def test_what_is_beside_the_reserved_part_comes_from_the_node_unless_restricted() -> None:
    node = cards(0, 50)
    assert minor(in_order_of(node, asked(80), [reserving("Aligned", 1)])) == (1, 0)
    assert minor(in_order_of(node, asked(80), [reserving(RESTRICTED, 1)])) == (0, -1)
    refused = in_order_of(node, asked(80), [reserving(RESTRICTED, 1)], is_required=True)
    assert isinstance(refused, NoCapacity)
    assert refused.reason.startswith("Insufficient")


def test_a_restricted_reservation_with_nothing_left_gives_nothing() -> None:
    empty = ReservedDevices(RESTRICTED, {"gpu": [Grant(0, HALF)]}, {})
    taken = [{"gpu": [Grant(0, HALF)]}]
    assert isinstance(in_order_of(cards(150, 0), asked(50), [empty], taken=taken, is_required=True), NoCapacity)
    assert minor(in_order_of(cards(150, 0), asked(50), [empty], taken=taken)) == (1, -1)


def test_what_is_left_of_others_is_not_touched_and_all_is_where_reservations_are_ignored() -> None:
    node = cards(100)
    mine = [reserving(RESTRICTED, 0)]
    assert isinstance(in_order_of(node, asked(80), mine), NoCapacity)
    other = [reserving("", 0), reserving("", 0)]
    assert isinstance(in_order_of(node, asked(100), other), NoCapacity)
    assert minor(in_order_of(node, asked(100), other, is_ignored=True)) == (0, -1)


def test_the_first_reservation_that_serves_is_taken() -> None:
    tried = [reserving(RESTRICTED, 0, (10, 10, 100, 0, 0, 0)), reserving(RESTRICTED, 1)]
    assert minor(in_order_of(cards(100, 100), asked(50), tried)) == (1, 1)


def test_no_reservation_where_one_is_required() -> None:
    assert isinstance(in_order_of(cards(0), asked(50), [], is_required=True), NoCapacity)


def test_a_restricted_reservation_gives_its_own_virtual_functions_and_other_types_from_the_node() -> None:
    made = (Function("0.1"), Function("0.2"))
    nic = Slot(0, (100,), (1,), 0, "A", (), made, frozenset({"0.2"}))
    held = {"rdma": [Grant(0, (1,), (made[1],))]}
    node = NodeDevices({"rdma": [nic], **cards(0).slots})
    request = DeviceRequest({**asked(50).amounts, "rdma": {names.RDMA: 1}}, {"rdma": Hint(functions=lambda _: True)})
    answer = in_order_of(node, request, [ReservedDevices(RESTRICTED, held, held)])
    assert isinstance(answer, FromReservation)
    assert answer.chosen["rdma"][0].functions == (made[1],)
    assert answer.chosen["gpu"][0].minor == 0


def zones(count: int) -> NodeDevices:
    return NodeDevices({"gpu": [Slot(at, WHOLE, (0,) * 6, at, f"{at:02}") for at in range(count)]})


def test_hints_of_one_card() -> None:
    found = device_hints(zones(2), asked(100))
    assert found == (DeviceHint((0,), True, 500), DeviceHint((1,), True, 0), DeviceHint((0, 1), False, 500))


@pytest.mark.parametrize(("count", "sets"), [(ZONES_MAX, 2**ZONES_MAX - 1), (ZONES_MAX + 1, 9 + 36 + 1)])
def test_the_sets_are_bounded(count: int, sets: int) -> None:
    found = device_hints(zones(count), asked(100))
    assert not isinstance(found, NoCapacity)
    assert len(found) == sets


def test_why_there_are_no_hints() -> None:
    assert device_hints(zones(2), asked(300)) == NoCapacity("Insufficient NUMA Scoped Devices", unresolvable=True)
    node = NodeDevices({"gpu": [slot._replace(used=WHOLE) for slot in zones(2).slots["gpu"]]})
    assert device_hints(node, asked(100)) == NoCapacity("Insufficient GPU Devices")


def test_a_device_on_no_numa_node_is_on_all_and_one_without_a_place_on_none() -> None:
    node = NodeDevices({"gpu": [Slot(0, WHOLE, (0,) * 6), Slot(1, WHOLE, (0,) * 6, -1, "A")]})
    chosen = choose_on(node, asked(100), [3])
    assert not isinstance(chosen, NoCapacity)
    assert [grant.minor for grant in chosen["gpu"]] == [1]
