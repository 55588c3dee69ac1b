"""The life of a Reservation: the protocol's cases, and what has to hold of any."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from berth.bus.port import Entry
from berth.contracts import names
from berth.contracts.codec import encode
from berth.contracts.kube import ObjectReference, ReservationCondition, ReservationOwner
from berth.contracts.state import Node, Pod, PodTemplate, Reservation, Synced
from berth.contracts.subjects import named_key, pod_key, synced_key
from berth.reservation_manager.core.life import FINAL, Phase, User, end_of, finished_of, live, unix
from berth.reservation_manager.core.reserved_capacity import capacity_of
from berth.reservation_manager.core.status import status_of
from berth.reservation_manager.views import StateView
from berth.resources.amounts import parse_amounts
from berth.rules.reservation_collect import is_collectable
from berth.testing.vectors import cases

KEY = names.ANNOTATION_RESERVATION_RESIZE


def text_of(at):
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reservation_of(given):
    status = given["status"]
    return Reservation(
        name="r",
        uid=given["uid"],
        version=7,
        owners=[ReservationOwner()],
        created=text_of(given["created"]),
        ttl_s=given.get("ttlSeconds"),
        expires=text_of(given["expires"]) if "expires" in given else "",
        allocate_once=given.get("allocateOnce", True),
        phase=status["phase"],
        node=status.get("nodeName", ""),
        allocatable=status.get("allocatable", {}),
        allocated=status.get("allocated", {}),
        current_owners=[ObjectReference(uid=uid) for uid in status.get("currentOwners", [])],
    )


def view_of(reservation, given):
    """The view of a cluster: the reservation, the nodes there are, the pods that name a reservation."""
    view = StateView(lambda name: None)
    seen = {named_key("reservation", reservation.name): reservation}
    for node in given["nodes"]:
        seen[named_key("node", node)] = Node(name=node, uid=node, version=1)
    for pod in given["pods"]:
        note = json.dumps({"name": reservation.name, "uid": pod["reservationUid"]})
        template = PodTemplate(requests=pod["requests"], annotations={names.ANNOTATION_RESERVATION_ALLOCATED: note})
        seen[pod_key("ns", pod["uid"])] = Pod(
            namespace="ns", name=pod["uid"], uid=pod["uid"], version=1, node=pod["nodeName"], template=template
        )
    for kind in ("pods", "nodes", "reservations"):
        seen[synced_key(kind)] = Synced(kind=kind, version=1, complete=True)
    for key, value in seen.items():
        view.apply(Entry(key, encode(value), False, 1, 0, False, None))
    view.end(1)
    return view


@pytest.mark.parametrize("case", cases("reservation/status_sync"))
def test_one_pass_of_the_protocols_controller(case):
    given, expect = case["given"], case["expect"]
    reservation = reservation_of(given["reservation"])
    view = view_of(reservation, given)
    gone = bool(reservation.node) and view.node_is_gone(reservation.node)
    life = live(reservation, view.users_of(reservation), node_is_gone=gone, now=given["now"])
    assert life.changed == (expect["action"] != "none")
    if not life.changed:
        return
    if "phase" in expect:
        assert life.phase == expect["phase"]
        status = status_of(reservation, life, text_of(given["now"]))
        ready = next(each for each in status["conditions"] if each["type"] == "Ready")
        if "ready" in expect:
            assert (ready["status"], ready["reason"]) == (expect["ready"], expect["reason"])
    if "currentOwners" in expect:
        assert [owner.uid for owner in life.owners] == expect["currentOwners"]
        assert life.allocated == expect["allocated"]


@pytest.mark.parametrize(
    "case", cases("reservation/conditions", lambda case: case["given"]["event"] != "unschedulable")
)
def test_conditions_after_an_event(case):
    given, expect = case["given"], case["expect"]
    known = [ReservationCondition(**each) for each in given["conditions"]]
    reservation = make(node="n", phase=given["phase"], conditions=known)
    status = status_of(reservation, live(reservation, [], node_is_gone=False, now=5000), "2024-01-01T00:00:00Z")
    assert status["phase"] == expect["phase"]
    assert [
        {field: each.get(field, "") for field in wanted}
        for each, wanted in zip(status["conditions"], expect["conditions"], strict=True)
    ] == expect["conditions"]


def make(**fields):
    return Reservation(**({"name": "r", "uid": "u", "version": 1, "created": text_of(1000), "ttl_s": 60.0} | fields))


def test_a_reservation_that_never_got_a_node_expires_too():
    assert live(make(), [], node_is_gone=False, now=1061).phase is Phase.FAILED
    assert live(make(), [], node_is_gone=False, now=1060).phase is Phase.PENDING


@pytest.mark.parametrize("case", cases("reservation/gc"))
def test_what_is_collected(case):
    given, told = case["given"], case["given"]["reservation"]
    times = {
        "last_transition_time": text_of(told["conditionTime"] if told["phase"] != "Succeeded" else 0),
        "last_probe_time": text_of(told["conditionTime"] if told["phase"] == "Succeeded" else 0),
    }
    ready = ReservationCondition(type="Ready", status="False", reason=told["readyReason"], **times)
    reason, since = finished_of(make(node="n", phase=told["phase"], conditions=[ready]))
    found = is_collectable(
        phase=told["phase"],
        reason=reason,
        finished_at=since,
        node_exists=given["nodeExists"],
        now=given["now"],
        after_s=given["gcSeconds"],
    )
    assert found is case["expect"]["delete"]


def test_what_is_to_be_held_less_is_given_back_in_place():
    notes = {names.ANNOTATION_RESERVATION_RESIZE: '{"resources":{"cpu":"1","memory":"4"}}'}
    held = make(node="n", phase="Available", allocatable={"cpu": 4000, "memory": 2}, annotations=notes)
    life = live(held, [], node_is_gone=False, now=1001)
    assert life.changed
    status = status_of(held, life, "2024-01-01T00:00:00Z")
    assert status["allocatable"] == {"cpu": "1"}
    assert not [each for each in capacity_of(held, life).problems if KEY in each.field], "a solver lets it grow"
    taking = structs.replace(held, pre_allocation=True)
    (problem,) = [each for each in capacity_of(taking, life).problems if KEY in each.field]
    assert problem.message == "does not grow: it takes over pods that run"
    garbled = structs.replace(held, annotations={KEY: '{"resources":{"cpu":"1x","nvidia.com/gpu":"2"}}'})
    told = [each.field for each in capacity_of(garbled, life).problems if KEY in each.field]
    assert told == [f"metadata.annotations[{KEY}].resources[{name}]" for name in ("cpu", "nvidia.com/gpu")]
    smaller = make(node="n", phase="Available", allocatable={"cpu": 1000, "memory": 2}, annotations=notes)
    assert not live(smaller, [], node_is_gone=False, now=1001).changed


def test_the_users_leaving_ends_a_reservation_for_one():
    left = make(node="n", phase="Available", current_owners=[ObjectReference(uid="p")], allocated={"cpu": 1})
    assert live(left, [], node_is_gone=False, now=1001).phase is Phase.SUCCEEDED
    several = make(node="n", phase="Available", allocate_once=False, current_owners=[ObjectReference(uid="p")])
    life = live(several, [], node_is_gone=False, now=1001)
    assert (life.phase, life.changed, life.owners) == (Phase.AVAILABLE, True, ())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-01T00:01:00", 60.0),
        ("", 0.0),
        ("soon", 0.0),
        ("9999999999999-01-01T00:00:00Z", 0.0),
    ],
)
def test_times(text, seconds):
    assert unix(text) == seconds


def test_which_end_counts():
    assert end_of(make(expires=text_of(1030))) == 1030
    assert end_of(make(expires=text_of(9000))) == 1060
    assert end_of(make(ttl_s=0.0, expires=text_of(1030))) == 0.0
    assert end_of(make(ttl_s=None)) == 0.0
    assert end_of(make(created="", expires="")) == 0.0


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), st.integers(0, 10**15), max_size=3)
user_lists = st.lists(
    st.builds(User, uid=st.sampled_from("abcdef"), namespace=st.just("ns"), name=st.just("p"), requests=amounts),
    max_size=4,
    unique_by=lambda user: user.uid,
)
reservations = st.builds(
    make,
    phase=st.sampled_from(["", "Pending", "Available", "Succeeded", "Failed", "Waiting", "junk"]),
    node=st.sampled_from(["", "n"]),
    ttl_s=st.one_of(st.none(), st.floats(-1e18, 1e18)),
    expires=st.sampled_from(["", "junk", text_of(1500)]),
    created=st.sampled_from(["", "junk", text_of(1000)]),
    allocate_once=st.booleans(),
    allocatable=amounts,
    allocated=amounts,
    current_owners=st.lists(st.builds(ObjectReference, uid=st.sampled_from("abc")), max_size=2),
)


def merged(shown, status):
    """The amounts after the status has been merged into the object, as the API server does."""
    return shown | parse_amounts(status["allocated"], "status.allocated")[0]


def test_what_nobody_draws_on_any_more_is_shown_as_nothing():
    shown = {"cpu": 2000, "koordinator.sh/gpu-core": 100}
    left = make(
        node="n",
        phase="Available",
        allocate_once=False,
        allocatable=shown,
        allocated=shown,
        current_owners=[ObjectReference(uid="p"), ObjectReference(uid="q")],
    )
    life = live(left, [User("q", "ns", "q", {"cpu": 500})], node_is_gone=False, now=1001)
    after = merged(shown, status_of(left, life, text_of(1001)))
    assert after == {"cpu": 500, "koordinator.sh/gpu-core": 0}


@given(reservations, user_lists, st.booleans(), st.floats(0, 1e12))
def test_its_status_once_written_needs_no_second_write(reservation, users, gone, now):
    """Whatever the object says: after its status was written as asked for, nothing more is asked for."""
    life = live(reservation, users, node_is_gone=gone, now=now)
    reserved = capacity_of(reservation, life)
    assert not reserved.usable or (life.phase is Phase.AVAILABLE and reservation.node)
    if not life.changed:
        return
    status = status_of(reservation, life, text_of(now) if now < 1e10 else "2100-01-01T00:00:00Z")
    written = {"phase": status["phase"]}
    if "allocated" in status:
        written["allocated"] = merged(reservation.allocated, status)
        written["current_owners"] = [ObjectReference(uid=each["uid"]) for each in status["currentOwners"]]
    after = Reservation(**({name: getattr(reservation, name) for name in reservation.__struct_fields__} | written))
    again = live(after, users, node_is_gone=gone, now=now)
    assert not again.changed
    assert again.phase is life.phase
    assert life.phase in FINAL or not (reservation.allocate_once and life.owners)
