"""reservation-manager on a real nats-server: STATE in, RESERVATION, patches and events out."""

from __future__ import annotations

import asyncio
import time

import pytest

from berth.bus import Bus, BusSettings, jetstream
from berth.contracts import buckets, names, state
from berth.contracts.codec import decode, encode
from berth.contracts.command import PatchObject
from berth.contracts.kube import LabelSelector, ObjectReference, ReservationOwner
from berth.contracts.reservation import ReservedRoom
from berth.contracts.subjects import named_key, pod_key, synced_key
from berth.reservation_manager.settings import Settings
from berth.reservation_manager.shell import SERVICE, main
from berth.runtime import Context
from berth.testing.views import View, eventually

KINDS = ("pods", "nodes", "reservations")


class World:
    """The rest of the control plane: writes STATE, follows RESERVATION, keeps commands and events."""

    def __init__(self, server):
        self.server = server
        self.view = View()
        self.patches = []
        self.subjects = []
        self.replicas = []
        self.version = 0

    async def begin(self):
        self.bus = await Bus.connect(BusSettings(url=self.server.url), service="test")
        await self.bus.ensure()
        self.state = self.bus.owned(buckets.STATE)
        await self.state.ready()
        self.follow = asyncio.create_task(self.bus.follow(buckets.RESERVATION, self.view).run())
        await self.bus.subscribe("berth.v1.cmd.>", self._command)
        await self.bus.subscribe("berth.v1.evt.>", self._event)

    async def end(self):
        for replica in list(self.replicas):
            await self.stop(replica)
        self.follow.cancel()
        await asyncio.gather(self.follow, return_exceptions=True)
        await self.bus.close()

    async def start(self, instance="one", **settings):
        bus = await Bus.connect(BusSettings(url=self.server.url), service=SERVICE)
        chosen = Settings(**({"lease_ttl_s": 2, "status_retry_s": 0.5} | settings))
        context = Context(service=SERVICE, settings=chosen, bus=bus, instance=instance)
        replica = (context, asyncio.create_task(main(context)))
        self.replicas.append(replica)
        return replica

    async def stop(self, replica):
        context, task = replica
        self.replicas.remove(replica)
        assert await context.supervisor.stop(task, 10.0) == []
        await asyncio.gather(task, return_exceptions=True)
        await context.bus.close()
        assert context.supervisor.failure is None

    async def crash(self, replica):
        context, task = replica
        self.replicas.remove(replica)
        await context.bus.close()
        await context.supervisor.stop(task, 5.0)
        await asyncio.gather(task, return_exceptions=True)

    async def _command(self, message):
        self.patches.append(decode(message.data, PatchObject))

    async def _event(self, message):
        self.subjects.append(message.subject)

    def reservation(self, name, **fields):
        self.version += 1
        known = {
            "name": name,
            "uid": f"uid-{name}",
            "version": self.version,
            "phase": "Available",
            "node": "n",
            "allocatable": {"cpu": 4000},
            "owners": [ReservationOwner(label_selector=LabelSelector())],
            "ttl_s": 0.0,
        }
        self.state.put(named_key("reservation", name), encode(state.Reservation(**(known | fields))))

    def pod(self, name, reservation="", node="n"):
        self.version += 1
        notes = {names.ANNOTATION_RESERVATION_ALLOCATED: f'{{"name":"{reservation}","uid":"uid-{reservation}"}}'}
        template = state.PodTemplate(requests={"cpu": 1000, "memory": 1}, annotations=notes if reservation else {})
        pod = state.Pod(namespace="ns", name=name, uid=name, version=self.version, template=template, node=node)
        self.state.put(pod_key("ns", name), encode(pod))

    def node(self, name="n"):
        self.version += 1
        self.state.put(named_key("node", name), encode(state.Node(name=name, uid=name, version=self.version)))

    def complete(self, *, complete=True):
        for kind in KINDS:
            marker = state.Synced(kind=kind, version=self.version, complete=complete)
            self.state.put(synced_key(kind), encode(marker))

    def room(self, name):
        value = self.view.values.get(named_key("reservation", name))
        return None if value is None else decode(value, ReservedRoom)


@pytest.fixture
async def world(nats_server):
    world = World(nats_server)
    await world.begin()
    yield world
    await world.end()


async def test_rooms_follow_their_objects(world):
    world.node()
    world.reservation("a", allocate_once=False)
    world.reservation("b", phase="", node="")
    world.complete()
    await world.start()
    await eventually(lambda: world.room("a") and world.room("b"), what="both are published")
    assert (world.room("a").usable, world.room("a").amounts) == (True, {"cpu": 4000})
    assert (world.room("b").usable, world.room("b").phase) == (False, "Pending")
    world.state.delete(named_key("reservation", "b"))
    await eventually(lambda: world.room("b") is None, what="it is taken back")


async def test_the_first_user_ends_a_reservation_for_one(world):
    world.node()
    world.reservation("a")
    world.complete()
    await world.start()
    await eventually(lambda: world.room("a") and world.room("a").usable)
    world.pod("p", "a")
    await eventually(lambda: not world.room("a").usable, what="nobody else gets in")
    await eventually(lambda: world.patches, what="a status is asked for")
    patch = world.patches[0]
    assert (patch.uid, patch.status["phase"], patch.status["allocated"]) == ("uid-a", "Succeeded", {"cpu": "1"})
    assert [owner["uid"] for owner in patch.status["currentOwners"]] == ["p"]
    assert patch.version == "2"
    await eventually(lambda: "berth.v1.evt.reservation.succeeded.a" in world.subjects, what="an event")


async def test_the_status_of_another_schedulers_reservation_is_left_alone(world):
    world.node()
    theirs = state.PodTemplate(scheduler="koord-scheduler")
    world.reservation("theirs", template=theirs)
    world.reservation("ours", template=state.PodTemplate(scheduler="berth-scheduler"))
    world.complete()
    first = await world.start()
    await eventually(lambda: world.room("theirs") and world.room("theirs").usable, what="its room is known")
    world.pod("p", "theirs")
    world.pod("q", "ours")
    await eventually(lambda: not world.room("theirs").usable and world.patches, what="both are used")
    assert {patch.name for patch in world.patches} == {"ours"}
    await world.stop(first)
    await world.start(scheduler_names=("berth-scheduler", "koord-scheduler"))
    await eventually(lambda: "theirs" in {patch.name for patch in world.patches}, what="it is taken over")


async def test_a_status_that_does_not_show_is_asked_for_again(world):
    world.node()
    world.reservation("a", allocate_once=False)
    world.complete()
    world.pod("p", "a")
    await world.start()
    await eventually(lambda: len(world.patches) >= 2, what="asked again")
    shown = {"current_owners": [ObjectReference(namespace="ns", name="p", uid="p")], "allocated": {"cpu": 1000}}
    world.reservation("a", allocate_once=False, **shown)
    await eventually(lambda: world.room("a").revision == world.version)
    asked = len(world.patches)
    world.pod("q")
    world.reservation("other")
    await eventually(lambda: world.room("other"), what="it goes on")
    assert len(world.patches) == asked


async def test_time_and_lost_nodes_end_reservations(world):
    world.node()
    world.node("m")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    world.reservation("short", ttl_s=None, expires=soon)
    world.reservation("moved", node="m")
    world.complete()
    await world.start()
    await eventually(lambda: world.room("short") and world.room("moved"))
    assert world.room("moved").usable
    world.state.delete(named_key("node", "m"))
    await eventually(lambda: world.room("moved").phase == "Failed", what="its node is gone")
    await eventually(lambda: world.room("short").phase == "Failed", what="its time is up")
    failed = {patch.name: patch.status for patch in world.patches}
    assert {status["phase"] for status in failed.values()} == {"Failed"}
    assert "allocated" not in failed["moved"]


async def test_nothing_is_decided_from_half_a_view(world):
    """STATE is lost and written again: until it is complete nobody's room is taken back, no user is taken for gone."""
    world.node()
    world.reservation("a", allocate_once=False)
    world.reservation("gone")
    world.pod("p", "a")
    world.complete()
    await world.start()
    await eventually(lambda: world.room("a") and world.room("gone") and world.patches)
    asked = len(world.patches)
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
    await eventually(lambda: world.room("gone") is None, what="what is gone is taken back")
    await eventually(lambda: world.room("a").revision > 2, what="what is there goes on")
    assert not [patch for patch in world.patches[asked:] if patch.status["phase"] != "Available"]


async def test_a_standby_takes_over_and_changes_nothing(world):
    world.node()
    world.reservation("a")
    world.complete()
    first = await world.start("first")
    await eventually(lambda: world.room("a"))
    await world.start("second")
    entries = len(world.view.entries)
    await world.crash(first)
    world.reservation("b")
    await eventually(lambda: world.room("b"), what="the standby goes on")
    assert [entry.key for entry in world.view.entries[entries:]] == [named_key("reservation", "b")]


async def test_bad_objects_are_announced_once(world):
    world.node()
    world.reservation("bad", owners=[])
    world.state.put(named_key("reservation", "junk"), b'{"type":"reservation.seen.v1","name":3}')
    world.state.put(pod_key("ns", "junk"), b"reservation-allocated: scheduling.koordinator.sh/reservation-allocated")
    world.reservation("good")
    world.complete()
    await world.start()
    await eventually(lambda: world.room("good") and world.room("good").usable)
    assert not world.room("bad").usable
    world.reservation("bad", owners=[], labels={"a": "b"})
    await eventually(lambda: world.room("bad").labels == {"a": "b"})
    assert world.subjects.count("berth.v1.evt.reservation.refused.reservation.bad") == 1
