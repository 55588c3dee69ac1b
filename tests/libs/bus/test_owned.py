"""An owner's keys: what it writes arrives once, what it deletes leaves a marker, and bad writes are refused."""

from __future__ import annotations

import asyncio

import pytest
from tests.libs.bus.stored import STATE, last_sequence, read

from berth.bus import Bus, jetstream, owned_book
from berth.bus import owned as owning
from berth.bus.keys import matches
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually, eventually_async


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


async def test_a_closed_owner_leaves_nothing_behind(bus: Bus) -> None:
    """A service that is active by turns owns its keys anew each time, over the same connection."""
    before = len(bus._link._subscriptions), len(bus._owned)
    for number in range(3):
        owned = bus.owned(STATE)
        owned.put("a", b"%d" % number)
        await owned.drain()
        await owned.close()
    assert (len(bus._link._subscriptions), len(bus._owned)) == before


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


async def test_back_pressure_holds_back_a_writer_that_is_too_fast(
    bus: Bus, nats_server: NatsServer, monkeypatch
) -> None:
    monkeypatch.setattr(owning, "WAITING_MAX", 10)
    owned = bus.owned(STATE)
    await owned.ready()
    nats_server.kill()
    for number in range(10):
        owned.put(f"k{number}", b"1")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(owned.wait_while_full(), 0.3)
    nats_server.start()
    await asyncio.wait_for(owned.wait_while_full(), 20)
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
