"""reservation-manager when its clock, its lease, STATE or a stranger interrupts it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.services.turns import Turns
from tests.services.worlds.reservation.world import World

from berth.bus import jetstream
from berth.contracts import buckets, state
from berth.reservation_manager.shell import Shell
from berth.testing.views import eventually

REFUSED = "berth.v1.evt.object.refused.reservations.bad"


class Queue:
    """The queue of commands of a replica, which is full until there is capacity in it again."""

    def __init__(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reserved = asyncio.Event()
        self.somebody_waits = asyncio.Event()
        commands = shell.context.bus.commands()
        self._publish = commands.publish
        monkeypatch.setattr(commands, "publish", self._wait_and_publish)

    async def _wait_and_publish(self, *args: Any, **rest: Any) -> None:
        self.somebody_waits.set()
        await self.reserved.wait()
        await self._publish(*args, **rest)


def usable(world: World, name: str) -> bool:
    reserved = world.reserved(name)
    return reserved is not None and reserved.usable


async def test_a_status_is_asked_for_again_though_the_clock_went_back(world: World) -> None:
    world.node()
    world.reservation("a", allocate_once=False)
    world.pod("p", "a")
    world.complete()
    await world.start()
    await eventually(lambda: world.commands, what="asked")
    world.clock.offset_s = -3600.0
    asked = len(world.commands)
    await eventually(lambda: len(world.commands) > asked + 1, deadline_s=6.0, what="asked again")


async def test_what_a_wrong_clock_took_for_over_holds_its_capacity_again(world: World) -> None:
    world.node()
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600))
    theirs = state.PodTemplate(scheduler="koord-scheduler")
    world.reservation("theirs", template=theirs, ttl_s=None, expires=ends)
    world.complete()
    await world.start()
    await eventually(lambda: usable(world, "theirs"), what="its capacity is known")
    world.clock.offset_s = 3600.0
    await eventually(lambda: not usable(world, "theirs"), what="its time is up")
    world.clock.offset_s = 0.0
    await eventually(lambda: usable(world, "theirs"), deadline_s=6.0, what="it is not")


async def test_a_strangers_key_stops_nothing(world: World) -> None:
    world.node()
    world.reservation("a")
    world.complete()
    await world.start()
    await eventually(lambda: world.reserved("a"), what="the first")
    stranger = world.bus.owned(buckets.RESERVATION)
    await stranger.ready()
    stranger.put("junk", b"x")
    await stranger.drain()
    world.reservation("b")
    await eventually(lambda: world.reserved("b"), deadline_s=6.0, what="it goes on")


async def test_problems_of_an_object_made_anew_are_told_again(world: World) -> None:
    world.node()
    world.reservation("bad", owners=[], uid="first")
    world.complete()
    await world.start()
    await eventually(lambda: world.subjects.count(REFUSED) == 1, what="told")
    world.reservation("bad", owners=[], uid="second")
    await eventually(lambda: world.subjects.count(REFUSED) == 2, deadline_s=6.0, what="told again")


async def test_who_is_active_again_asks_for_what_it_could_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.node()
    world.reservation("a", allocate_once=False)
    world.pod("p", "a")
    world.complete()
    lease = Turns()
    shell = await world.start_shell(lease, status_retry_s=60.0)
    queue = Queue(shell, monkeypatch)
    lease.give()
    await queue.somebody_waits.wait()
    lease.take()
    await asyncio.sleep(0.1)
    assert world.commands == []
    queue.reserved.set()
    lease.give()
    await eventually(lambda: world.commands, deadline_s=6.0, what="asked")


async def test_a_view_that_begins_anew_while_a_command_waits_takes_no_capacity_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.node()
    for name in "abc":
        world.reservation(name, allocate_once=False)
        world.pod(f"p{name}", name)
    world.complete()
    shell = await world.start_shell(status_retry_s=60.0)
    await eventually(lambda: len(world.commands) == 3, what="all are asked for")
    queue = Queue(shell, monkeypatch)
    for name in "abc":
        world.pod(f"q{name}", name)
    await queue.somebody_waits.wait()
    entries = len(world.view.entries)
    await jetstream.call(world.bus._link, "STREAM.DELETE.KV_berth_state")
    await world.bus.ensure()
    world.state = world.bus.owned(buckets.STATE)
    await world.state.ready()
    world.complete(complete=False)
    await world.state.drain()
    await eventually(lambda: not shell.view.reservations, what="the view begins anew")
    assert not shell.view.is_complete
    queue.reserved.set()
    await asyncio.sleep(1.0)
    assert [entry.key for entry in world.view.entries[entries:] if entry.deleted] == []
