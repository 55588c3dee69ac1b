"""What RESERVATION says of a Reservation."""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.kube import LabelSelector, Requirement, ReservationOwner
from berth.contracts.state import Reservation
from berth.reservation_manager.core.life import User, live
from berth.reservation_manager.core.reserved_capacity import capacity_of, problems_of


def make(**fields):
    known = {
        "name": "r",
        "uid": "u",
        "version": 9,
        "phase": "Available",
        "node": "n",
        "allocatable": {"cpu": 4000},
        "owners": [ReservationOwner(label_selector=LabelSelector())],
        "ttl_s": 0.0,
    }
    return Reservation(**(known | fields))


def reserved(reservation, users=()):
    return capacity_of(reservation, live(reservation, users, node_is_gone=False, now=1000))


def test_capacity_that_may_be_used():
    found = reserved(make(labels={names.LABEL_RESERVATION_ORDER: "7"}, allocate_policy="Aligned"))
    assert (found.usable, found.amounts, found.order, found.revision) == (True, {"cpu": 4000}, 7, 9)


def test_used_up_deleted_or_ended_capacity_may_not_be_used():
    user = User("p", "ns", "p", {"cpu": 1})
    assert not reserved(make(), [user]).usable
    assert reserved(make(allocate_once=False), [user]).usable
    assert not reserved(make(deleting=True)).usable
    ended = reserved(make(phase="Failed"))
    assert (ended.usable, ended.amounts) == (False, {})
    assert not reserved(make(node="", phase="")).usable


def test_a_broken_selector_makes_the_whole_unusable():
    bad = ReservationOwner(label_selector=LabelSelector(match_expressions=[Requirement(key="a", operator="Near")]))
    found = reserved(make(owners=[ReservationOwner(label_selector=LabelSelector()), bad]))
    assert not found.usable
    assert found.owners == []
    assert [problem.field for problem in found.problems if problem.field.startswith("spec.owners[1]")]


def test_problems_name_their_field():
    notes = {names.ANNOTATION_RESERVATION_RESTRICTED: "{cpu}"}
    fields = [problem.field for problem in problems_of(make(owners=[], annotations=notes))]
    assert fields[0] == "spec.owners"
    assert names.ANNOTATION_RESERVATION_RESTRICTED in fields[1]


def test_restricted_names_and_orders_as_people_write_them():
    notes = {names.ANNOTATION_RESERVATION_RESTRICTED: '{"resources":["memory","cpu"]}'}
    assert reserved(make(annotations=notes)).restricted == ["cpu", "memory"]
    for text, order in (("", 0), ("x", 0), ("-3", -3), ("9" * 60, 0)):
        assert reserved(make(labels={names.LABEL_RESERVATION_ORDER: text})).order == order
