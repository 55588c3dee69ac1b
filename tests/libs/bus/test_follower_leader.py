"""A stream's leader changes while every connection stands, and the new one has an older store.

The consumer of who reads stays at its server, and looks healthy. Where that server does not find back to the others it
is silent for good; else it may be silent until sequences come that it has not delivered yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.libs.bus.test_follower_history import LEDGER, following, put, put_all

from berth.bus import Bus, BusSettings, jetstream
from berth.bus.errors import BusError
from berth.bus.follower import Follower
from berth.bus.leader_watch import LOOK_EVERY_S
from berth.testing.nats_cluster import NAMES
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.split_cluster import SplitCluster
from berth.testing.tcp_proxy import Way
from berth.testing.views import View, eventually, eventually_async

STREAM = f"KV_{LEDGER}"

simulated = pytest.mark.asyncio(loop_factories=["simulated"])
real = pytest.mark.asyncio(loop_factories=["real"])


@pytest.fixture
async def nats_server() -> LoopbackServer:
    """One that answers as a cluster of three does."""
    return LoopbackServer(clustered=True)


@simulated
@pytest.mark.parametrize("stranded", [True, False])
@pytest.mark.parametrize("late", [[], ["late.0"], ["late.0", "late.1", "late.2"]], ids=len)
async def test_a_tail_that_is_lost_while_the_connection_stands_starts_the_view_over(
    bus: Bus, nats_server: LoopbackServer, spawn, late: list[str], stranded: bool
) -> None:
    view, follower = await following(bus, spawn, "kept", "lost.0", "lost.1")
    nats_server.nats.lead_anew(STREAM, 2, stranded=stranded)
    await put_all(bus, late)
    await eventually(lambda: set(view.values) == {"kept", *late} and follower.attached.is_set(), deadline_s=5)
    assert view.resets == 1


class Detached:
    """Counts how often a follower is cut off."""

    def __init__(self, follower: Follower) -> None:
        self.times = 0
        detach = follower._detach

        async def counted() -> None:
            self.times += 1
            await detach()

        follower._detach = counted  # type: ignore[method-assign]


async def several_looks(follower: Follower) -> None:
    await asyncio.sleep(5 * LOOK_EVERY_S)
    assert follower.attached.is_set()


@simulated
@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_leader_that_has_all_that_was_read_is_no_reason_to_stop(
    bus: Bus, nats_server: LoopbackServer, spawn, is_busy: bool
) -> None:
    """Also where the newest message is replaced all the time."""
    view, follower = await following(bus, spawn, "a", "b")
    cut = Detached(follower)

    async def write() -> None:
        for number in range(10_000):
            await put(bus, "hot", b"%d" % number)
            await asyncio.sleep(0.002)

    if is_busy:
        spawn(write())
        await asyncio.sleep(1)
    before = follower._history.leader
    nats_server.nats.lead_anew(STREAM)
    await several_looks(follower)
    assert follower._history.leader != before
    assert (cut.times, view.resets) == (0, 0)


@simulated
async def test_where_all_that_is_known_was_replaced_the_leader_has_to_be_the_same(
    bus: Bus, nats_server: LoopbackServer, spawn
) -> None:
    view, _ = await following(bus, spawn, "a")
    (consumer,) = nats_server.nats.streams[STREAM].consumers.values()
    nats_server.nats.lead_anew(STREAM)
    consumer.stranded = True
    await put(bus, "a", b"2")
    await eventually(lambda: view.values == {"a": b"2"})
    assert view.resets == 1


@simulated
async def test_a_consumer_that_passes_over_what_is_stored_is_made_anew(
    bus: Bus, nats_server: LoopbackServer, spawn
) -> None:
    """As one does on a server that no longer follows the leader; its heartbeats come."""
    view, _ = await following(bus, spawn, "a")
    (consumer,) = nats_server.nats.streams[STREAM].consumers.values()
    consumer.stranded = True
    await put(bus, "b", b"1")
    await eventually(lambda: set(view.values) == {"a", "b"})
    assert view.resets == 0


@simulated
async def test_what_is_not_to_be_read_is_not_missed(bus: Bus, nats_server: LoopbackServer, spawn) -> None:
    view = View()
    follower = bus.follow(LEDGER, view, keys=["kept.>", "also.>"])
    spawn(follower.run())
    await put_all(bus, ["kept.a", "also.a", "other.a", "other.b"])
    await eventually(lambda: set(view.values) == {"kept.a", "also.a"})
    cut = Detached(follower)
    nats_server.nats.lead_anew(STREAM)
    await several_looks(follower)
    assert (cut.times, view.resets) == (0, 0)


@simulated
async def test_a_consumer_that_counts_anew_is_compared(bus: Bus, nats_server: LoopbackServer, spawn) -> None:
    view, follower = await following(bus, spawn, "a", "b")
    cut = Detached(follower)
    (consumer,) = nats_server.nats.streams[STREAM].consumers.values()
    consumer.delivered = 0
    await eventually(lambda: cut.times == 1 and follower.attached.is_set())
    assert view.resets == 0


@simulated
@pytest.mark.parametrize("lost", [0, 1])
async def test_an_owner_asks_the_leader_before_it_goes_on_behind_a_doubt(
    bus: Bus, nats_server: LoopbackServer, lost: int
) -> None:
    resets: list[bool] = []
    owned = bus.owned(LEDGER, on_reset=lambda: resets.append(True))
    await owned.ready()
    owned.put("a", b"1")
    owned.put("b", b"1")
    await owned.drain()
    nats_server.nats.lead_anew(STREAM, lost)
    if lost:
        await put_all(bus, ["theirs"])
    owned._chain = None  # as behind a write of unknown outcome
    owned.put("c", b"1")
    await owned.drain()
    assert len(resets) == lost
    await owned.close()


@simulated
async def test_what_took_the_place_of_the_lost_is_read_also_where_it_was_replaced(
    bus: Bus, nats_server: LoopbackServer, spawn
) -> None:
    view, _ = await following(bus, spawn, "a", "b", "c", "d")
    nats_server.nats.lead_anew(STREAM, 2, stranded=False)
    for number in range(5):
        await put(bus, "late", b"%d" % number)
    await eventually(lambda: view.values == {"a": b"1", "b": b"1", "late": b"4"})


@simulated
async def test_another_era_of_the_owner_is_compared_before_it_is_read(
    bus: Bus, nats_server: LoopbackServer, spawn
) -> None:
    """The consumer goes on behind what took the place of the lost: its owner notices first, and says so."""
    owned, view = bus.owned(LEDGER, on_reset=lambda: put_again()), View()

    def put_again() -> None:
        for key in ("b", "c", "d", "e"):
            owned.put(key, b"2")

    await owned.ready()
    for key in ("a", "b", "c"):
        owned.put(key, b"1")
    await owned.drain()
    follower = bus.follow(LEDGER, view)
    spawn(follower.run())
    await eventually(lambda: set(view.values) == {"a", "b", "c"})
    nats_server.nats.lead_anew(STREAM, 2, stranded=False)
    before = len(view.entries)
    owned.put("x", b"1")
    await eventually(lambda: view.resets == 1 and view.values.get("e") == b"2")
    assert all(entry.sequence != 4 or entry.value == b"2" for entry in view.entries[before:])
    assert view.values == {"a": b"1", **dict.fromkeys("bcde", b"2")}
    await owned.close()


@simulated
async def test_only_a_view_of_what_the_leader_holds_has_all(bus: Bus, nats_server: LoopbackServer, spawn) -> None:
    view, follower = await following(bus, spawn, "a", "lost.0", "lost.1")
    assert await follower.has_all()
    nats_server.nats.lead_anew(STREAM, 2)
    assert not await follower.has_all()
    await put_all(bus, ["late"])
    assert not await follower.has_all()
    await eventually_async(follower.has_all)
    assert set(view.values) == {"a", "late"}
    (consumer,) = nats_server.nats.streams[STREAM].consumers.values()
    consumer.stranded = True
    await put(bus, "later", b"1")
    assert not await follower.has_all()


@simulated
async def test_what_a_view_is_not_to_have_is_not_missed(bus: Bus, spawn) -> None:
    follower = bus.follow(LEDGER, View(), keys="kept.>")
    spawn(follower.run())
    await put_all(bus, ["kept.a", "other.a"])
    await eventually_async(follower.has_all)


# --- three servers ----------------------------------------------------------------------------------------------------

LOST, STAYS = NAMES[:2], NAMES[2]


@pytest.fixture
async def three() -> AsyncIterator[SplitCluster]:
    async with SplitCluster("max_payload: 2MB") as split:
        yield split


async def lose_tail(three: SplitCluster, saved: dict[str, Path]) -> None:
    """The two come back with those stores, and the streams have leaders, before the third can speak to them."""
    three.set(STAYS, Way.CUT)
    three.restore(saved)
    other = await Bus.connect(BusSettings(url=three.servers[LOST[0]].url, replicas=3), service="other")
    try:

        async def is_stored() -> bool:
            with contextlib.suppress(BusError):
                return await put(other, "late", b"1") > 0
            return False

        await eventually_async(is_stored, deadline_s=60)
    finally:
        await other.close()
        three.set(STAYS, Way.OPEN)


async def read_from(bus: Bus, follower: Follower, name: str) -> None:
    """The server chooses where a consumer is: again until it is on this one."""

    async def is_there() -> bool:
        with contextlib.suppress(BusError):
            answer = await jetstream.call(bus._link, f"CONSUMER.INFO.{STREAM}.{follower._consumer}")
            if answer["cluster"]["leader"] == name:
                return True
        follower.begin_again("a test")
        await eventually(follower.attached.is_set)
        return False

    await eventually_async(is_there, deadline_s=60)


@real
@pytest.mark.slow
async def test_two_of_three_servers_on_older_stores_start_over_a_view_that_is_read_from_the_third(
    three: SplitCluster, spawn
) -> None:
    bus = await Bus.connect(BusSettings(url=three.servers[STAYS].url, replicas=3), service="tester")
    try:
        await asyncio.wait_for(bus.ensure(), 60)
        view, follower = await following(bus, spawn, "kept")
        await read_from(bus, follower, STAYS)
        saved = three.save(LOST)
        await put_all(bus, ["lost.0", "lost.1"])
        await eventually(lambda: set(view.values) == {"kept", "lost.0", "lost.1"})
        generation = bus._link.generation
        await lose_tail(three, saved)
        await eventually(lambda: set(view.values) == {"kept", "late"}, deadline_s=30)
        assert bus._link.generation == generation, "the connection stood all the while"
    finally:
        await bus.close()
