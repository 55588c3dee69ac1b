"""Following a key by name: what it holds, what it comes to hold, and what was lost."""

from __future__ import annotations

import asyncio

import pytest

from berth.bus import Bus, BusSettings, jetstream
from berth.bus.follower import Follower
from berth.bus.key_follower import KeyFollower
from berth.bus.link import Link
from berth.bus.port import Stored
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

BUCKET = "berth_slo"
KEY = "node.n1"


async def put(bus: Bus, value: bytes, key: str = KEY, **headers: str) -> None:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    answer = await bus._link.request(f"$KV.{BUCKET}.{key}", value, timeout_s=5, headers=named or None)
    assert b"error" not in answer.data


async def test_names_are_read_by_name_and_patterns_by_a_consumer(bus: Bus) -> None:
    assert isinstance(bus.follow(BUCKET, View(), keys=KEY), KeyFollower)
    assert isinstance(bus.follow(BUCKET, View(), keys=(KEY, "node.n2")), KeyFollower)
    assert isinstance(bus.follow(BUCKET, View(), keys=("node.*", KEY)), Follower)
    assert isinstance(bus.follow(BUCKET, View()), Follower)


async def test_it_shows_what_is_there_and_what_changes(bus: Bus, spawn) -> None:
    await put(bus, b"1")
    view = View()
    follower = bus.follow(BUCKET, view, keys=(KEY, "node.n2"))
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 5)
    assert view.values == {KEY: b"1"}
    await put(bus, b"2", key="node.n2")
    await put(bus, b"3")
    await put(bus, b"other", key="node.n3")
    await eventually(lambda: view.values == {KEY: b"3", "node.n2": b"2"})
    await put(bus, b"", KV_Operation="DEL")
    await eventually(lambda: view.values == {"node.n2": b"2"})
    assert view.resets == 0
    info = await jetstream.stream_info(bus._link, f"KV_{BUCKET}")
    assert info.state.consumer_count == 0


async def test_an_empty_bucket_is_ready_and_empty(bus: Bus, spawn) -> None:
    view = View()
    follower = bus.follow(BUCKET, view, keys=KEY)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 5)
    assert view.values == {}


async def test_a_lost_bucket_is_noticed_and_read_again(bus: Bus, spawn) -> None:
    for value in (b"1", b"2", b"3"):
        await put(bus, value)
    view = View()
    spawn(bus.follow(BUCKET, view, keys=KEY).run())
    await eventually(lambda: view.values == {KEY: b"3"})
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{BUCKET}")
    await bus.ensure()
    await eventually(lambda: view.values == {}, deadline_s=5)
    assert view.resets == 1
    await put(bus, b"new")
    await eventually(lambda: view.values == {KEY: b"new"})
    assert view.resets == 1


async def test_it_goes_on_when_the_server_comes_back(bus: Bus, nats_server: NatsServer, spawn) -> None:
    await put(bus, b"1")
    view = View()
    spawn(bus.follow(BUCKET, view, keys=KEY).run())
    await eventually(lambda: view.values == {KEY: b"1"})
    nats_server.kill()
    await eventually(lambda: not bus.connected.is_set())
    nats_server.start()
    await eventually(bus.connected.is_set)
    await put(bus, b"2")
    await eventually(lambda: view.values == {KEY: b"2"})


async def test_an_owner_of_one_key_hears_of_another_writer_and_of_a_loss(bus: Bus) -> None:
    conflicts: list[str] = []
    resets: list[bool] = []
    owned = bus.owned(BUCKET, keys=KEY, on_conflict=conflicts.append, on_reset=lambda: resets.append(True))
    await owned.ready()
    owned.put(KEY, b"mine")
    await owned.drain()
    await put(bus, b"foreign")
    await eventually(lambda: conflicts == [KEY], deadline_s=10)
    owned.put(KEY, b"mine again")
    await owned.drain()
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{BUCKET}")
    await bus.ensure()
    await eventually(lambda: resets == [True], deadline_s=10)
    owned.put(KEY, b"mine")
    await owned.drain()
    stored = await jetstream.newest(bus._link, BUCKET, KEY)
    assert stored is not None
    assert stored.value == b"mine"


async def test_a_domain_is_where_the_api_is() -> None:
    assert BusSettings().api == "$JS.API"
    assert BusSettings(domain="berth").api == "$JS.berth.API"


@pytest.mark.asyncio(loop_factories=["simulated"])
async def test_ones_own_key_is_read_at_one_beat_of_five_and_at_each_while_somebody_else_is_in_the_way(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[float] = []
    newest = jetstream.newest

    async def counted(link: Link, bucket: str, key: str) -> Stored | None:
        read.append(asyncio.get_running_loop().time())
        return await newest(link, bucket, key)

    monkeypatch.setattr(jetstream, "newest", counted)
    owned = bus.owned(BUCKET, keys=KEY)
    await owned.ready()
    owned.put(KEY, b"mine")
    await owned.drain()
    read.clear()
    await asyncio.sleep(50)
    assert 10 <= len(read) <= 13
    heard: list[str] = []
    owned.on_conflict = heard.append
    written_s = asyncio.get_running_loop().time()
    await put(bus, b"theirs")
    await eventually(lambda: heard == [KEY], deadline_s=6)
    assert asyncio.get_running_loop().time() - written_s < 5.5
    await owned.close()
