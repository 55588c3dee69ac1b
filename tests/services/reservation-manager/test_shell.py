"""reservation-manager on a real nats-server: STATE in, RESERVATION, patches and events out."""

from __future__ import annotations

import asyncio
import time

import msgspec

from berth.bus import jetstream
from berth.contracts import buckets, state
from berth.contracts.command import DeleteObject
from berth.contracts.kube import ObjectReference, ReservationCondition
from berth.contracts.subjects import named_key, pod_key
from berth.testing.views import eventually


async def test_capacities_follow_their_objects(world):
    world.node()
    world.reservation("a", allocate_once=False)
    world.reservation("b", phase="", node="")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("a") and world.reserved("b"), what="both are published")
    assert (world.reserved("a").usable, world.reserved("a").amounts) == (True, {"cpu": 4000})
    assert (world.reserved("b").usable, world.reserved("b").phase) == (False, "Pending")
    world.state.delete(named_key("reservation", "b"))
    await eventually(lambda: world.reserved("b") is None, what="it is taken back")


async def test_the_first_user_ends_a_reservation_for_one(world):
    world.node()
    world.reservation("a")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("a") and world.reserved("a").usable)
    world.pod("p", "a")
    await eventually(lambda: not world.reserved("a").usable, what="nobody else gets in")
    await eventually(lambda: world.commands, what="a status is asked for")
    patch = world.commands[0]
    assert (patch.uid, patch.status["phase"], patch.status["allocated"]) == ("uid-a", "Succeeded", {"cpu": "1"})
    assert [owner["uid"] for owner in patch.status["currentOwners"]] == ["p"]
    assert patch.version == "2"
    await eventually(lambda: "berth.v1.evt.reservation.changed.succeeded.a" in world.subjects, what="an event")


async def test_a_note_that_the_decision_does_not_confirm_ends_no_reservation(world):
    """An owner that was placed beside the Reservation, and says since that it used it."""
    world.node()
    world.reservation("a")
    world.reservation("b")
    await world.decided("liar")
    await world.decided("user", "b")
    world.pod("liar", "a")
    world.pod("user", "b")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("b") and not world.reserved("b").usable, what="b is used")
    assert world.reserved("a").usable


async def test_the_status_of_another_schedulers_reservation_is_left_alone(world):
    world.node()
    theirs = state.PodTemplate(scheduler="koord-scheduler")
    world.reservation("theirs", template=theirs)
    world.reservation("ours", template=state.PodTemplate(scheduler="berth-scheduler"))
    world.complete()
    first = await world.start()
    await eventually(lambda: world.reserved("theirs") and world.reserved("theirs").usable, what="its capacity is known")
    world.pod("p", "theirs")
    world.pod("q", "ours")
    await eventually(lambda: not world.reserved("theirs").usable and world.commands, what="both are used")
    assert {patch.name for patch in world.commands} == {"ours"}
    await world.stop(first)
    await world.start(scheduler_names=("berth-scheduler", "koord-scheduler"))
    await eventually(lambda: "theirs" in {patch.name for patch in world.commands}, what="it is taken over")


async def test_a_status_that_does_not_show_is_asked_for_again(world):
    world.node()
    world.reservation("a", allocate_once=False)
    world.complete()
    world.pod("p", "a")
    await world.start()
    await eventually(lambda: len(world.commands) >= 2, what="asked again")
    shown = {"current_owners": [ObjectReference(namespace="ns", name="p", uid="p")], "allocated": {"cpu": 1000}}
    world.reservation("a", allocate_once=False, **shown)
    await eventually(lambda: world.reserved("a").revision == world.version)
    asked = len(world.commands)
    world.pod("q")
    world.reservation("other")
    await eventually(lambda: world.reserved("other"), what="it goes on")
    assert len(world.commands) == asked


async def test_time_and_lost_nodes_end_reservations(world):
    world.node()
    world.node("m")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    world.reservation("short", ttl_s=None, expires=soon)
    world.reservation("moved", node="m")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("short") and world.reserved("moved"))
    assert world.reserved("moved").usable
    world.state.delete(named_key("node", "m"))
    await eventually(lambda: world.reserved("moved").phase == "Failed", what="its node is gone")
    await eventually(lambda: world.reserved("short").phase == "Failed", what="its time is up")
    failed = {patch.name: patch.status for patch in world.commands}
    assert {status["phase"] for status in failed.values()} == {"Failed"}
    assert "allocated" not in failed["moved"]


async def test_nothing_is_decided_from_half_a_view(world):
    """STATE is lost and written again: until it is complete nobody's capacity is taken back, no user is taken for
    gone."""
    world.node()
    world.reservation("a", allocate_once=False)
    world.reservation("gone")
    world.pod("p", "a")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("a") and world.reserved("gone") and world.commands)
    asked = len(world.commands)
    entries = len(world.view.entries)
    await jetstream.call(world.bus._link, "STREAM.DELETE.KV_berth_state")
    await world.bus.ensure()
    shown = {"current_owners": [ObjectReference(namespace="ns", name="p", uid="p")], "allocated": {"cpu": 1000}}
    other = world.bus.owned(buckets.STATE)
    await other.ready()
    world.state = other
    world.complete(complete=False)
    world.reservation("a", allocate_once=False, **shown)
    await other.drain()
    await asyncio.sleep(0.5)
    assert len(world.view.entries) == entries
    world.node()
    world.pod("p", "a")
    world.complete()
    await eventually(lambda: world.reserved("gone") is None, what="what is gone is taken back")
    await eventually(lambda: world.reserved("a").revision > 2, what="what is there goes on")
    assert not [patch for patch in world.commands[asked:] if patch.status["phase"] != "Available"]


async def test_a_standby_takes_over_and_changes_nothing(world):
    world.node()
    world.reservation("a")
    world.complete()
    first = await world.start("first")
    await eventually(lambda: world.reserved("a"))
    await world.start("second")
    entries = len(world.view.entries)
    await world.crash(first)
    world.reservation("b")
    await eventually(lambda: world.reserved("b"), what="the standby goes on")
    assert [entry.key for entry in world.view.entries[entries:]] == [named_key("reservation", "b")]


async def test_bad_objects_are_announced_once(world):
    world.node()
    world.reservation("bad", owners=[])
    world.state.put(named_key("reservation", "junk"), b'{"type":"reservation.seen.v1","name":3}')
    world.state.put(pod_key("ns", "junk"), b"reservation-allocated: scheduling.koordinator.sh/reservation-allocated")
    world.reservation("good")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("good") and world.reserved("good").usable)
    assert not world.reserved("bad").usable
    world.reservation("bad", owners=[], labels={"a": "b"})
    await eventually(lambda: world.reserved("bad").labels == {"a": "b"})
    assert world.subjects.count("berth.v1.evt.object.refused.reservations.bad") == 1


async def test_one_that_finished_long_ago_is_deleted_as_it_was_judged(world):
    world.node()
    long_ago = "2020-01-01T00:00:00Z"
    ready = ReservationCondition(type="Ready", status="False", reason="Succeeded", last_probe_time=long_ago)
    world.reservation("old", phase="Succeeded", conditions=[ready])
    world.reservation("kept", phase="Failed", conditions=[msgspec.structs.replace(ready, reason="Unschedulable")])
    world.complete()
    await world.start(collect_after_s=3600.0)
    await eventually(lambda: world.commands, what="a deletion is asked for")
    ask = world.commands[0]
    assert isinstance(ask, DeleteObject)
    assert (ask.name, ask.uid, ask.version) == ("old", "uid-old", "2")
    await eventually(lambda: len(world.commands) > 1, what="it is asked for again while it shows")
    assert {each.name for each in world.commands} == {"old"}
