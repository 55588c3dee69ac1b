"""The server is killed, or a bucket loses its tail or is made again: the owner is asked, and writes what is missing."""

from __future__ import annotations

import asyncio

from tests.libs.bus.stored import LEASE, STATE, last_sequence, read

from berth.bus import Bus, jetstream
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually, eventually_async


async def test_kills_lose_nothing_and_the_last_value_is_there(bus: Bus, nats_server: NatsServer) -> None:
    owned = bus.owned(LEASE)
    await owned.ready()

    async def write() -> None:
        for number in range(4000):
            owned.put(f"k{number % 200}", b"%d" % number)
            if number % 20 == 0:
                await asyncio.sleep(0.01)

    task = asyncio.create_task(write())
    for _ in range(3):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(nats_server.restart)
    await task
    await asyncio.wait_for(owned.drain(), 60)
    for key in range(200):
        assert await read(bus, f"k{key}", LEASE) == b"%d" % (3800 + key)
    assert owned.conflicts == 0


async def test_what_a_kill_took_from_a_bucket_that_persists_later_is_put_again(
    bus: Bus, nats_server: NatsServer
) -> None:
    """This bucket acknowledges before the disk has it: a kill may take what was acknowledged, and the owner hears."""
    wanted: dict[str, bytes] = {}

    def put_all() -> None:
        for key, value in wanted.items():
            owned.put(key, value)

    owned = bus.owned(STATE, on_reset=put_all, on_conflict=lambda key: owned.put(key, wanted[key]) and None)
    await owned.ready()

    async def write() -> None:
        for number in range(3000):
            wanted[f"k{number % 300}"] = b"%d" % number
            owned.put(f"k{number % 300}", b"%d" % number)
            if number % 20 == 0:
                await asyncio.sleep(0.008)

    task = asyncio.create_task(write())
    for _ in range(3):
        await asyncio.sleep(0.25)
        await asyncio.to_thread(nats_server.restart)
    await task

    async def complete() -> bool:
        await owned.drain()
        try:
            return [await read(bus, key) for key in wanted] == list(wanted.values())
        except Exception:
            return False

    await eventually_async(complete, deadline_s=60)


async def remake_bucket(bus: Bus) -> None:
    """Somebody deletes the bucket, and it is made again at once."""
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{STATE}")
    await bus.ensure()


async def test_a_lost_bucket_is_read_again_and_the_owner_asked(bus: Bus) -> None:
    asked: list[int] = []
    owned = bus.owned(STATE, on_reset=lambda: asked.append(1))
    owned.put("a", b"1")
    owned.put("b", b"1")
    await owned.drain()
    await remake_bucket(bus)
    await bus._link.request(f"$KV.{STATE}.left", b"by somebody", timeout_s=5)
    await eventually(lambda: asked == [1])
    assert set(owned.keys()) == {"left"}
    assert owned.put("a", b"1")
    assert owned.put("b", b"1")
    await owned.drain()
    assert await read(bus, "a") == b"1"
    assert owned.conflicts == 0


async def test_a_bucket_made_again_behind_everybodys_back_is_not_filled_from_the_middle(bus: Bus) -> None:
    """Writes go on, and come before the reader misses its heartbeats."""
    asked: list[int] = []
    owned = bus.owned(STATE, on_reset=lambda: asked.append(1))
    owned.put("first", b"1")
    owned.put("second", b"1")
    await owned.drain()
    await remake_bucket(bus)
    for number in range(20):
        if asked:  # from then on what is put is meant for the new bucket
            break
        owned.put("second", b"x%d" % number)
        owned.put(f"new{number}", b"1")
        await asyncio.sleep(0.02)
        assert asked or await last_sequence(bus) == 0
    await eventually(lambda: asked == [1])
    assert await last_sequence(bus) == 0
    assert set(owned.keys()) == set()
    owned.put("first", b"1")
    await owned.drain()
    assert await read(bus, "first") == b"1"


async def test_a_lost_tail_is_noticed_by_the_owner(bus: Bus, nats_server: NatsServer) -> None:
    asked: list[int] = []
    owned = bus.owned(LEASE, on_reset=lambda: asked.append(1))
    owned.put("kept", b"1")
    await owned.drain()
    nats_server.kill()
    saved = nats_server.save_store()
    nats_server.start()
    await eventually(bus.connected.is_set)
    owned.put("lost", b"1")
    owned.put("kept", b"2")
    await owned.drain()
    nats_server.kill()
    nats_server.restore_store(saved)
    nats_server.start()
    await eventually(lambda: asked == [1])
    assert set(owned.keys()) == {"kept"}
    assert owned.put("lost", b"1")
    assert owned.put("kept", b"2")
    await owned.drain()
    assert await read(bus, "kept", LEASE) == b"2"


async def test_without_a_callback_waiting_writes_survive_the_loss_of_the_bucket(bus: Bus) -> None:
    owned = bus.owned(STATE)
    owned.put("a", b"1")
    await owned.drain()
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{STATE}")
    owned.put("b", b"1")
    await asyncio.sleep(0.1)
    await bus.ensure()
    await asyncio.wait_for(owned.drain(), 30)
    assert await read(bus, "b") == b"1"
