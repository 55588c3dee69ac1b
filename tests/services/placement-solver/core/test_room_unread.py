"""How long an owner waits for a Reservation's room, from what STATE shows and what RESERVATION says."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.reservation import ReservedRoom
from berth.contracts.state import Reservation
from berth.placement_solver.core.room_unread import WORKED_OUT_S, UnreadRoom
from berth.rules.reservation_owners import PodIdentity

OWNER = PodIdentity("team", "p", labels={"app": "a"})
STRANGER = PodIdentity("team", "q", labels={"app": "b"})
OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))]


def shown(**fields: Any) -> Reservation:
    told = {"name": "r", "uid": "u", "version": 1, "owners": OWNERS, "phase": "Available", "node": "n", **fields}
    return Reservation(**told)


def room(*, uid: str = "u", node: str = "n") -> ReservedRoom:
    return ReservedRoom(name="r", uid=uid, revision=1, phase="Available", node=node)


@pytest.fixture
def unread() -> UnreadRoom:
    made = UnreadRoom()
    made.see("r", shown(), 100.0)
    return made


def until(unread: UnreadRoom, pod: PodIdentity = OWNER) -> float | None:
    wait = unread.wait_of(pod)
    return None if wait is None else wait.until


def test_an_owner_waits_for_the_room_and_nobody_else_does(unread: UnreadRoom) -> None:
    assert until(unread) == 100.0 + WORKED_OUT_S
    assert until(unread, STRANGER) is None
    unread.publish("r", room(), 101.0)
    assert not unread
    assert until(unread) is None


@pytest.mark.parametrize("former", [room(node=""), room(uid="former"), room(node="m")], ids=["pending", "uid", "node"])
def test_room_that_was_worked_out_before_is_not_it(unread: UnreadRoom, former: ReservedRoom) -> None:
    unread.publish("r", former, 101.0)
    assert until(unread) == 100.0 + WORKED_OUT_S


@pytest.mark.parametrize(
    "now", [None, shown(node=""), shown(phase="Succeeded"), shown(phase="Failed"), shown(deleting=True)]
)
def test_what_holds_no_room_is_not_waited_for(unread: UnreadRoom, now: Reservation | None) -> None:
    unread.see("r", now, 101.0)
    assert until(unread) is None


def test_a_change_of_the_object_asks_for_no_new_wait(unread: UnreadRoom) -> None:
    unread.see("r", shown(version=2), 105.0)
    assert until(unread) == 100.0 + WORKED_OUT_S
    unread.publish("r", room(), 106.0)
    unread.see("r", shown(version=3), 107.0)
    assert until(unread) is None


def test_both_ways_may_begin_anew(unread: UnreadRoom) -> None:
    unread.publish("r", room(), 101.0)
    unread.reset_rooms(200.0)
    assert until(unread) == 200.0 + WORKED_OUT_S
    unread.reset_state()
    assert until(unread) is None
    unread.publish("r", room(), 201.0)
    unread.see("r", shown(), 202.0)
    assert until(unread) is None


def test_room_that_is_withdrawn_is_waited_for_while_the_object_shows_it(unread: UnreadRoom) -> None:
    unread.publish("r", room(), 101.0)
    unread.publish("r", None, 150.0)
    assert until(unread) == 150.0 + WORKED_OUT_S


def test_of_several_the_last_one_counts() -> None:
    unread = UnreadRoom()
    for number, at in enumerate((3.0, 9.0, 5.0)):
        unread.see(f"r{number}", shown(name=f"r{number}", uid=f"u{number}"), at)
    wait = unread.wait_of(OWNER)
    assert wait is not None
    assert wait.until == 9.0 + WORKED_OUT_S
    assert wait.reason.message == "reservation r1 has a node, its room is not published yet"
