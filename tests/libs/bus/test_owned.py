from __future__ import annotations

import asyncio
from typing import Any

import pytest

from berth.bus import Bus, jetstream, owned_book, window
from berth.bus import owned as owning
from berth.bus.keys import matches
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually, eventually_async

STATE = "berth_state"
LEASE = "berth_lease"  # waits for the disk, so a kill loses nothing that was acknowledged


async def read(bus: Bus, key: str, bucket: str = STATE) -> bytes | None:
    stored = await jetstream.newest(bus._link, bucket, key)
    return None if stored is None or stored.deleted else stored.value


async def last_sequence(bus: Bus, bucket: str = STATE) -> int:
    return (await jetstream.stream_info(bus._link, f"KV_{bucket}")).state.last_seq


async def test_puts_arrive_and_equal_bytes_are_not_sent(bus: Bus) -> None:
    owned = bus.owned(STATE)
    await owned.ready()
    assert owned.put("a", b"1")
    assert not owned.put("a", b"1")
    await owned.drain()
    assert not owned.put("a", b"1")
    assert owned.put("a", b"2")
    await owned.drain()
    assert await read(bus, "a") == b"2"
    assert await last_sequence(bus) == 2
    assert owned.sequence("a") == 2
    assert list(owned.keys()) == ["a"]


async def test_only_the_newest_of_the_waiting_values_is_sent(bus: Bus) -> None:
    owned = bus.owned(STATE)
    await owned.ready()
    for number in range(100):
        owned.put("a", b"%d" % number)
    await owned.drain()
    assert await read(bus, "a") == b"99"
    assert await last_sequence(bus) < 5


async def test_a_new_owner_learns_what_is_there(bus: Bus, connect) -> None:
    first = bus.owned(STATE)
    first.put("a", b"1")
    first.put("b", b"2")
    await first.drain()
    first.delete("b")
    await first.drain()
    await first.close()
    view = View()
    second = (await connect("second")).owned(STATE, sink=view)
    await second.ready()
    assert set(second.keys()) == {"a"}
    assert view.values == {"a": b"1"}
    assert not second.put("a", b"1")
    assert not second.delete("b")
    assert not second.delete("never")
    assert second.put("b", b"3")
    await second.drain()
    assert await read(bus, "b") == b"3"
    assert second.conflicts == 0


async def test_deletions_leave_a_marker_with_payload_that_expires(bus: Bus, monkeypatch) -> None:
    monkeypatch.setattr(owning, "TOMBSTONE_TTL_S", 1)
    owned = bus.owned(STATE)
    owned.put("a", b"1")
    await owned.drain()
    assert owned.delete("a", b"gone")
    assert list(owned.keys()) == []
    await owned.drain()
    stored = await jetstream.newest(bus._link, STATE, "a")
    assert stored is not None
    assert (stored.deleted, stored.value) == (True, b"gone")

    async def expired() -> bool:
        return await jetstream.newest(bus._link, STATE, "a") is None

    await eventually_async(expired)
    # The key's known sequence is that of the marker, which is no more: found out, and written all the same.
    assert owned.put("a", b"2")
    await owned.drain()
    assert await read(bus, "a") == b"2"
    assert owned.conflicts == 0


async def test_deleted_keys_are_forgotten_after_their_markers(bus: Bus, monkeypatch) -> None:
    monkeypatch.setattr(owned_book, "FORGET_S", 0.0)
    owned = bus.owned(STATE)
    for number in range(50):
        owned.put(f"k{number}", b"1")
    await owned.drain()
    for number in range(50):
        owned.delete(f"k{number}")
    await owned.drain()
    await asyncio.sleep(0.01)
    owned.put("later", b"1")
    await owned.drain()
    owned.delete("later")
    await owned.drain()
    await eventually(lambda: len(owned._keys) <= 1)


async def test_of_two_owners_the_one_that_is_behind_is_refused(bus: Bus, connect) -> None:
    """A paused owner wakes up with a decision made before its successor's: it changes nothing, and is told."""
    told: list[tuple[str, bytes]] = []
    view = View()
    paused = (await connect("paused")).owned(STATE, sink=view)
    paused.on_conflict = lambda key: told.append((key, view.values[key]))
    successor = bus.owned(STATE)
    paused.put("a", b"1")
    await paused.drain()
    await successor.ready()

    # Asleep: what its follower is sent stays unread, its write is decided on what it knew.
    subscription = paused._follower._subscription
    receive, unread = subscription.taker, []  # type: ignore[union-attr]
    subscription.replace(unread.append)  # type: ignore[union-attr]
    successor.put("a", b"2")
    await successor.drain()
    paused.put("a", b"stale")
    await eventually(lambda: paused.conflicts == 1)
    assert told == []
    for msg in unread:
        receive(msg)
    await paused.drain()
    assert await read(bus, "a") == b"2"
    assert told == [("a", b"2")]
    paused.put("a", b"decided again")
    await paused.drain()
    assert await read(bus, "a") == b"decided again"


async def test_an_entry_by_somebody_else_takes_back_a_waiting_write(bus: Bus) -> None:
    told: list[str] = []
    owned = bus.owned(STATE, on_conflict=told.append)
    await owned.ready()
    await bus._link.request(f"$KV.{STATE}.a", b"foreign", timeout_s=5)
    await eventually(lambda: told == ["a"])
    assert set(owned.keys()) == {"a"}
    await owned.drain()
    assert owned.put("a", b"mine")
    await owned.drain()
    assert await read(bus, "a") == b"mine"


async def test_two_owners_in_each_others_way_never_lose_count(bus: Bus, connect) -> None:
    """Every key ends with a value that one of them decided last, and both agree on it."""
    other_bus = await connect("other")
    mine, other = View(), View()
    owners = [bus.owned(STATE, sink=mine), other_bus.owned(STATE, sink=other)]
    for owner in owners:
        await owner.ready()
    for round_number in range(30):
        for number, owner in enumerate(owners):
            for key in range(10):
                owner.put(f"k{key}", b"%d.%d" % (number, round_number))
        await asyncio.sleep(0)
    for owner in owners:
        await owner.drain()
    end = await last_sequence(bus)
    await eventually(lambda: all(owner._follower.sequence == end for owner in owners))
    assert mine.values == other.values
    for key, value in mine.values.items():
        assert await read(bus, key) == value
    assert all(owner._open == 0 for owner in owners)


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


async def test_keys_of_others_are_neither_read_nor_written(bus: Bus, connect) -> None:
    told: list[str] = []
    mine = bus.owned("berth_metrics", keys="node.a", on_conflict=told.append)
    other = (await connect("other")).owned("berth_metrics", keys="node.b", on_conflict=told.append)
    for number in range(20):
        mine.put("node.a", b"%d" % number)
        other.put("node.b", b"%d" % number)
        await mine.drain()
        await other.drain()
    assert set(mine.keys()) == {"node.a"}
    assert (mine.conflicts, other.conflicts, told) == (0, 0, [])
    with pytest.raises(ValueError, match="not one of the owned keys"):
        mine.put("node.b", b"1")


@pytest.mark.parametrize(
    ("pattern", "key", "fits"),
    [
        (">", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
    ],
)
def test_patterns_of_keys(pattern: str, key: str, fits: bool) -> None:
    assert matches(pattern, key) is fits


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
        owned.put("second", b"x%d" % number)
        owned.put(f"new{number}", b"1")
        await asyncio.sleep(0.02)
        if asked:
            break
        assert await last_sequence(bus) == 0
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


async def test_a_late_acknowledgement_is_settled_by_reading(bus: Bus, nats_server: NatsServer, monkeypatch) -> None:
    monkeypatch.setattr("berth.bus.window.ACK_TIMEOUT_S", 0.3)
    owned = bus.owned(STATE)
    await owned.ready()
    nats_server.pause()
    owned.put("a", b"1")
    await asyncio.sleep(1.0)
    nats_server.resume()
    await asyncio.wait_for(owned.drain(), 30)
    assert await read(bus, "a") == b"1"
    assert owned.conflicts == 0
    assert await last_sequence(bus) == 1


async def test_a_write_that_was_given_up_and_arrives_late_is_no_conflict(bus: Bus) -> None:
    """The read after a time-out may overtake the write: it is sent again, then the first one arrives."""
    told: list[str] = []
    owned = bus.owned(STATE, on_conflict=told.append)
    await owned.ready()
    link = bus._link
    publish, late = link.publish, []

    async def delayed(subject: str, payload: bytes = b"", **rest) -> None:
        if subject.startswith("$KV.") and not late:
            late.append((subject, payload, rest["headers"]))
            owned._window._finish(rest["reply"].rsplit(".", 1)[1], "no acknowledgement in time")
            return
        if subject.startswith("$KV."):
            for first_subject, first_payload, headers in late:
                await publish(first_subject, first_payload, headers=headers)
        await publish(subject, payload, **rest)

    link.publish = delayed  # type: ignore[method-assign]
    owned.put("a", b"first")
    await eventually(lambda: late)
    owned.put("a", b"second")
    await asyncio.wait_for(owned.drain(), 10)
    assert await read(bus, "a") == b"second"
    assert (owned.conflicts, told) == (0, [])


async def test_what_follows_a_lost_write_is_not_stored_before_it(bus: Bus, monkeypatch) -> None:
    """As when a leader dies in the middle of a burst: some of it is lost, the next leader would take the rest."""
    monkeypatch.setattr(window, "ACK_TIMEOUT_S", 1.0)
    owned = bus.owned(STATE)
    await owned.ready()
    lost = {f"$KV.{STATE}.k{number:03d}" for number in (5, 6, 40)}
    publish = bus._link.publish

    async def unreliable(subject: str, payload: bytes = b"", **more: Any) -> None:
        if subject in lost:
            lost.remove(subject)
            return
        await publish(subject, payload, **more)

    monkeypatch.setattr(bus._link, "publish", unreliable)
    wanted = [f"k{number:03d}" for number in range(60)]
    for key in wanted:
        owned.put(key, b"1")
    await owned.drain()
    assert not lost
    view = View()
    reading = asyncio.create_task(bus.follow(STATE, view).run())
    await eventually(lambda: len(view.values) == len(wanted))
    reading.cancel()
    assert [entry.key for entry in view.entries] == wanted
    assert owned.conflicts == 0


async def test_room_holds_back_a_writer_that_is_too_fast(bus: Bus, nats_server: NatsServer, monkeypatch) -> None:
    monkeypatch.setattr(owning, "WAITING_MAX", 10)
    owned = bus.owned(STATE)
    await owned.ready()
    nats_server.kill()
    for number in range(10):
        owned.put(f"k{number}", b"1")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(owned.room(), 0.3)
    nats_server.start()
    await asyncio.wait_for(owned.room(), 20)
    await owned.drain()


@pytest.mark.parametrize("key", ["", "a b", "a..b", ".a", "a.", "a.*", "ü", "k" * 4000, "a\r\nPUB x 0"])
async def test_illegal_keys_are_errors(bus: Bus, key: str) -> None:
    owned = bus.owned(STATE)
    await owned.ready()
    with pytest.raises(ValueError, match="not a key"):
        owned.put(key, b"1")
    with pytest.raises(ValueError, match="larger than"):
        owned.put("a", b"x" * (1 << 20))


async def test_what_a_callback_raises_comes_back_to_the_owner(bus: Bus) -> None:
    def fail(key: str) -> None:
        raise RuntimeError("bad callback")

    owned = bus.owned(STATE, on_conflict=fail)
    await owned.ready()
    await bus._link.request(f"$KV.{STATE}.a", b"foreign", timeout_s=5)
    with pytest.raises(RuntimeError, match="bad callback"):
        await eventually(lambda: owned.put("b", b"1") and False, deadline_s=5)
