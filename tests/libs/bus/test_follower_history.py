"""A follower that was cut off compares what it knows of the stream with what is stored: sequences alone prove nothing.

Others write before it is back, so that the end of the stream looks unharmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from tests.libs.bus.down import while_down

from berth.bus import Bus, jetstream
from berth.bus.errors import BusError
from berth.bus.follower import Follower
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

LEDGER = "berth_ledger"


async def put(bus: Bus, key: str, value: bytes) -> int:
    """Writes until it is acknowledged; the sequence."""
    while True:
        await bus.connected.wait()
        try:
            answer = await bus._link.request(f"$KV.{LEDGER}.{key}", value, timeout_s=5)
            ack = jetstream.decode_ack(answer.data)
        except BusError:
            await asyncio.sleep(0.01)
            continue
        if ack.error is None:
            return ack.seq
        await asyncio.sleep(0.01)


async def put_all(bus: Bus, keys: Iterable[str]) -> None:
    for key in keys:
        await put(bus, key, b"1")


async def following(bus: Bus, spawn: Any, *keys: str) -> tuple[View, Follower]:
    """A follower that has read these keys."""
    view = View()
    follower = bus.follow(LEDGER, view)
    spawn(follower.run())
    await put_all(bus, keys)
    await eventually(lambda: set(view.values) == set(keys) and follower.attached.is_set())
    return view, follower


def hold(follower: Follower) -> asyncio.Event:
    """From now on it comes back only once the event is set."""
    may_go_on, attach = asyncio.Event(), follower._attach

    async def wait_and_attach() -> None:
        await may_go_on.wait()
        await attach()

    follower._attach = wait_and_attach  # type: ignore[method-assign]
    return may_go_on


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(["late.0", "late.1", "late.2"], id="another message where one was read"),
        pytest.param(["late"] * 4, id="what took the place of the lost was replaced, an older message is still there"),
    ],
)
async def test_a_stream_that_lost_its_tail_and_went_on_starts_the_view_over(
    bus: Bus, nats_server: NatsServer, spawn, late: list[str]
) -> None:
    view = View()
    follower = bus.follow(LEDGER, view)
    spawn(follower.run())
    await put_all(bus, ["kept"])
    saved = await while_down(bus, nats_server, nats_server.save_store)
    await put_all(bus, ["lost.0", "lost.1"])
    await eventually(lambda: set(view.values) == {"kept", "lost.0", "lost.1"})
    may_go_on = hold(follower)
    await while_down(bus, nats_server, lambda: nats_server.restore_store(saved))
    await put_all(bus, late)
    may_go_on.set()
    await eventually(lambda: set(view.values) == {"kept", *late})
    assert view.resets == 1


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_message_that_was_acknowledged_here_and_never_read_is_compared_too(
    bus: Bus, nats_server: NatsServer, spawn, is_lost: bool
) -> None:
    view = View()
    follower = bus.follow(LEDGER, view, keys="kept.>")
    spawn(follower.run())
    await put_all(bus, ["kept.a"])
    saved = await while_down(bus, nats_server, nats_server.save_store)
    follower.witness(await put(bus, "own", b"1"), f"$KV.{LEDGER}.own", b"1")
    await eventually(lambda: set(view.values) == {"kept.a"} and follower.attached.is_set())
    may_go_on = hold(follower)
    if is_lost:
        await while_down(bus, nats_server, lambda: nats_server.restore_store(saved))
    else:
        nats_server.restart()
        await eventually(lambda: not follower.attached.is_set())
    await put_all(bus, ["theirs", "kept.b"])
    may_go_on.set()
    await eventually(lambda: set(view.values) == {"kept.a", "kept.b"} and follower.attached.is_set())
    assert view.resets == (1 if is_lost else 0)


@pytest.mark.parametrize("is_lost", [True, False])
async def test_the_same_bytes_at_the_same_place_are_not_the_message_that_was_acknowledged(
    bus: Bus, connect, nats_server: NatsServer, is_lost: bool
) -> None:
    """Two replicas fill a bucket with what is true, in orders of their own: the last message of both may be alike."""
    owned = bus.owned(LEDGER, keys="mine.>")
    await owned.ready()
    saved = await while_down(bus, nats_server, nats_server.save_store)
    for key in ("mine.a", "mine.b", "mine.c"):
        owned.put(key, b"1")
        await owned.drain()
    may_go_on = hold(owned._follower)  # type: ignore[arg-type]
    if is_lost:
        await while_down(bus, nats_server, lambda: nats_server.restore_store(saved))
        other = (await connect("other")).owned(LEDGER, keys="mine.>")
        await other.ready()
        for key in ("mine.b", "mine.a", "mine.c"):
            other.put(key, b"1")
            await other.drain()
    else:
        nats_server.restart()
        await eventually(lambda: not owned._follower.attached.is_set())
    may_go_on.set()
    await eventually(lambda: owned._follower.attached.is_set())
    assert owned._era == (1 if is_lost else 0)
    assert [owned.sequence(key) for key in ("mine.a", "mine.b")] == ([2, 1] if is_lost else [1, 2])


async def test_what_is_acknowledged_here_while_the_histories_are_compared_ends_nothing(
    bus: Bus, nats_server: NatsServer, spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, follower = await following(bus, spawn, "a", "b")
    ask = jetstream.message_at

    async def meanwhile(*asked: Any) -> Any:
        found = await ask(*asked)
        follower.witness(await put(bus, "own", b"1"), f"$KV.{LEDGER}.own", b"1")
        return None if asked[-1] > 1 else found  # the newest was replaced: another one is asked for

    with monkeypatch.context() as patched:
        patched.setattr(jetstream, "message_at", meanwhile)
        follower.begin_again("a test")
        await eventually(lambda: "own" in view.values and follower.attached.is_set())
    assert (set(view.values), view.resets) == ({"a", "b", "own"}, 0)


@pytest.mark.parametrize("restarted", [True, False])
async def test_where_all_that_is_known_was_replaced_only_a_server_that_ran_on_is_trusted(
    bus: Bus, nats_server: NatsServer, spawn, restarted: bool
) -> None:
    view, follower = await following(bus, spawn, "a")
    may_go_on = hold(follower)
    if restarted:
        nats_server.restart()
    else:
        follower.begin_again("a test")
    await eventually(lambda: follower._subscription is None, what="it is cut off")
    await put(bus, "a", b"2")
    may_go_on.set()
    await eventually(lambda: view.values == {"a": b"2"})
    assert view.resets == (1 if restarted else 0)


async def test_a_server_that_ran_on_is_trusted_though_the_newest_message_was_replaced(
    bus: Bus, nats_server: NatsServer, spawn
) -> None:
    view, follower = await following(bus, spawn, "a", "b")
    may_go_on = hold(follower)
    follower.begin_again("a test")
    await eventually(lambda: follower._subscription is None, what="it is cut off")
    await put(bus, "b", b"2")
    may_go_on.set()
    await eventually(lambda: view.values == {"a": b"1", "b": b"2"})
    assert view.resets == 0
