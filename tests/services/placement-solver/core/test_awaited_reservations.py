"""Which Reservations an owner has to wait for, from what STATE shows and what RESERVATION says."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.placement_solver.core.awaited_reservations import AwaitedReservations
from berth.placement_solver.core.reserved import ReservationRequest
from berth.rules.reservation_owners import PodIdentity

OWNER = ReservationRequest(PodIdentity("team", "p", labels={"app": "a"}))
STRANGER = ReservationRequest(PodIdentity("team", "q", labels={"app": "b"}))


def owned_by(app: str) -> list[ReservationOwner]:
    return [ReservationOwner(label_selector=LabelSelector(match_labels={"app": app}))]


def shown(**fields: Any) -> Reservation:
    told = {"name": "r", "uid": "u", "version": 1, "owners": owned_by("a"), "phase": "Available", "node": "n", **fields}
    return Reservation(**told)


def capacity(*, uid: str = "u", node: str = "n") -> ReservedCapacity:
    return ReservedCapacity(name="r", uid=uid, revision=1, phase="Available", node=node)


@pytest.fixture
def awaited() -> AwaitedReservations:
    made = AwaitedReservations()
    made.see("r", shown())
    return made


def test_an_owner_waits_for_the_capacity_and_nobody_else_does(awaited: AwaitedReservations) -> None:
    assert awaited.of(OWNER) == "r"
    assert awaited.of(STRANGER) is None
    awaited.publish("r", capacity())
    assert not awaited
    assert awaited.of(OWNER) is None


def test_who_asks_for_one_by_name_waits_for_that_one(awaited: AwaitedReservations) -> None:
    assert awaited.of(OWNER._replace(name="r")) == "r"
    assert awaited.of(OWNER._replace(name="other")) is None


@pytest.mark.parametrize(
    "former", [capacity(node=""), capacity(uid="former"), capacity(node="m")], ids=["pending", "uid", "node"]
)
def test_capacity_that_was_worked_out_before_is_not_it(awaited: AwaitedReservations, former: ReservedCapacity) -> None:
    awaited.publish("r", former)
    assert awaited.of(OWNER) == "r"


@pytest.mark.parametrize(
    "now", [None, shown(node=""), shown(phase="Succeeded"), shown(phase="Failed"), shown(deleting=True)]
)
def test_what_holds_no_capacity_is_not_waited_for(awaited: AwaitedReservations, now: Reservation | None) -> None:
    awaited.see("r", now)
    assert awaited.of(OWNER) is None


def test_what_was_published_is_not_waited_for_again(awaited: AwaitedReservations) -> None:
    awaited.publish("r", capacity())
    awaited.see("r", shown(version=3))
    assert awaited.of(OWNER) is None


def test_new_owners_are_the_ones_who_wait(awaited: AwaitedReservations) -> None:
    awaited.see("r", shown(version=2, owners=owned_by("b")))
    assert awaited.of(OWNER) is None
    assert awaited.of(STRANGER) == "r"


def test_both_ways_may_begin_anew(awaited: AwaitedReservations) -> None:
    awaited.publish("r", capacity())
    awaited.reset_reserved()
    assert awaited.of(OWNER) == "r"
    awaited.reset_state()
    assert awaited.of(OWNER) is None
    awaited.publish("r", capacity())
    awaited.see("r", shown())
    assert awaited.of(OWNER) is None


def test_capacity_that_is_withdrawn_is_waited_for_while_the_object_shows_it(awaited: AwaitedReservations) -> None:
    awaited.publish("r", capacity())
    awaited.publish("r", None)
    assert awaited.of(OWNER) == "r"


def test_owners_that_cannot_be_read_are_nobody() -> None:
    awaited = AwaitedReservations()
    broken = LabelSelector(match_labels={"app": "not a value!"})
    awaited.see("r", shown(owners=[ReservationOwner(label_selector=broken)]))
    assert awaited.of(OWNER) is None


def test_who_may_own_one_may_change_while_it_is_awaited(awaited: AwaitedReservations) -> None:
    assert awaited.see("r", shown(owners=owned_by("b")))
    assert (awaited.of(OWNER), awaited.of(STRANGER)) == (None, "r")
    awaited.see("r", None)
    assert awaited.of(STRANGER) is None
    awaited.see("r", shown())
    awaited.reset_state()
    assert awaited.of(OWNER) is None
