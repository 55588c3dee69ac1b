"""Which Reservations an owner has to wait for, from what STATE shows and what RESERVATION says."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.placement_solver.core.reserved import Wish
from berth.placement_solver.core.room_unread import UnreadRoom
from berth.rules.reservation_owners import PodIdentity

OWNER = Wish(PodIdentity("team", "p", labels={"app": "a"}))
STRANGER = Wish(PodIdentity("team", "q", labels={"app": "b"}))


def owned_by(app: str) -> list[ReservationOwner]:
    return [ReservationOwner(label_selector=LabelSelector(match_labels={"app": app}))]


def shown(**fields: Any) -> Reservation:
    told = {"name": "r", "uid": "u", "version": 1, "owners": owned_by("a"), "phase": "Available", "node": "n", **fields}
    return Reservation(**told)


def room(*, uid: str = "u", node: str = "n") -> ReservedCapacity:
    return ReservedCapacity(name="r", uid=uid, revision=1, phase="Available", node=node)


@pytest.fixture
def unread() -> UnreadRoom:
    made = UnreadRoom()
    made.see("r", shown())
    return made


def test_an_owner_waits_for_the_room_and_nobody_else_does(unread: UnreadRoom) -> None:
    assert unread.of(OWNER) == "r"
    assert unread.of(STRANGER) is None
    unread.publish("r", room())
    assert not unread
    assert unread.of(OWNER) is None


def test_who_asks_for_one_by_name_waits_for_that_one(unread: UnreadRoom) -> None:
    assert unread.of(OWNER._replace(name="r")) == "r"
    assert unread.of(OWNER._replace(name="other")) is None


@pytest.mark.parametrize("former", [room(node=""), room(uid="former"), room(node="m")], ids=["pending", "uid", "node"])
def test_room_that_was_worked_out_before_is_not_it(unread: UnreadRoom, former: ReservedCapacity) -> None:
    unread.publish("r", former)
    assert unread.of(OWNER) == "r"


@pytest.mark.parametrize(
    "now", [None, shown(node=""), shown(phase="Succeeded"), shown(phase="Failed"), shown(deleting=True)]
)
def test_what_holds_no_room_is_not_waited_for(unread: UnreadRoom, now: Reservation | None) -> None:
    unread.see("r", now)
    assert unread.of(OWNER) is None


def test_what_was_published_is_not_waited_for_again(unread: UnreadRoom) -> None:
    unread.publish("r", room())
    unread.see("r", shown(version=3))
    assert unread.of(OWNER) is None


def test_new_owners_are_the_ones_who_wait(unread: UnreadRoom) -> None:
    unread.see("r", shown(version=2, owners=owned_by("b")))
    assert unread.of(OWNER) is None
    assert unread.of(STRANGER) == "r"


def test_both_ways_may_begin_anew(unread: UnreadRoom) -> None:
    unread.publish("r", room())
    unread.reset_rooms()
    assert unread.of(OWNER) == "r"
    unread.reset_state()
    assert unread.of(OWNER) is None
    unread.publish("r", room())
    unread.see("r", shown())
    assert unread.of(OWNER) is None


def test_room_that_is_withdrawn_is_waited_for_while_the_object_shows_it(unread: UnreadRoom) -> None:
    unread.publish("r", room())
    unread.publish("r", None)
    assert unread.of(OWNER) == "r"


def test_owners_that_cannot_be_read_are_nobody() -> None:
    unread = UnreadRoom()
    broken = LabelSelector(match_labels={"app": "not a value!"})
    unread.see("r", shown(owners=[ReservationOwner(label_selector=broken)]))
    assert unread.of(OWNER) is None
