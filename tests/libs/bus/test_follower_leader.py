"""A follower compares with the stream's leader, also while its own connection stands.

In a cluster a stream may come to be led by a server that lacks its newest messages, without a word to those who are
connected to another one: their consumers go on, behind the end of the stream, and show nothing of what takes the place
of the lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from tests.libs.bus.test_follower_history import LEDGER, following, put, put_all

from berth.bus import Bus, history
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.views import eventually

STREAM = f"KV_{LEDGER}"
pytestmark = pytest.mark.asyncio(loop_factories=["simulated"])


@pytest.mark.parametrize("late", [[], ["late.0"], [f"late.{number}" for number in range(6)]], ids=len)
async def test_a_tail_that_is_lost_while_the_connection_stands_is_noticed(
    bus: Bus, nats_server: LoopbackServer, spawn: Any, late: list[str]
) -> None:
    view, _ = await following(bus, spawn, "a", "b", "c", "d")
    nats_server.lead_anew(STREAM, 2)
    await put_all(bus, late)
    await eventually(lambda: set(view.values) == {"a", "b", *late})
    assert view.resets == 1


async def test_what_took_the_place_of_the_lost_is_read_also_where_it_was_replaced(
    bus: Bus, nats_server: LoopbackServer, spawn: Any
) -> None:
    view, _ = await following(bus, spawn, "a", "b", "c", "d")
    nats_server.lead_anew(STREAM, 2)
    for number in range(5):
        await put(bus, "late", b"%d" % number)
    await eventually(lambda: view.values == {"a": b"1", "b": b"1", "late": b"4"})


async def test_another_leader_with_all_that_was_read_starts_nothing_over(
    bus: Bus, nats_server: LoopbackServer, spawn: Any
) -> None:
    view, reader = await following(bus, spawn, "a", "b")
    for _ in range(3):
        nats_server.lead_anew(STREAM, 0)
        await asyncio.sleep(10)
    await put(bus, "c", b"1")
    await eventually(lambda: set(view.values) == {"a", "b", "c"})
    assert view.resets == 0
    assert reader.attached.is_set()


async def test_a_leader_that_stays_is_asked_and_nothing_else_happens(bus: Bus, spawn: Any) -> None:
    view, reader = await following(bus, spawn, "a", "b")
    attached, reader._attach = reader._attach, None  # type: ignore[method-assign,assignment]
    await asyncio.sleep(60)
    assert attached is not None
    assert view.resets == 0
    assert reader.attached.is_set()


async def test_where_too_much_was_read_since_to_tell_all_is_read_again(
    bus: Bus, nats_server: LoopbackServer, spawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LENGTH", 8)
    view, reader = await following(bus, spawn, "a", "b", "c", "d")
    reader._history._recent = deque(reader._history._recent, maxlen=8)
    nats_server.lead_anew(STREAM, 2)
    await put_all(bus, [f"late.{number}" for number in range(30)])
    await eventually(lambda: {"c", "d"}.isdisjoint(view.values) and len(view.values) == 32)
    assert view.resets == 1


async def test_what_was_replaced_under_the_new_leader_is_no_loss(
    bus: Bus, nats_server: LoopbackServer, spawn: Any
) -> None:
    view, _ = await following(bus, spawn, "a", "b")
    nats_server.lead_anew(STREAM, 0)
    for number in range(3):
        await put(bus, "b", b"%d" % number)
    await asyncio.sleep(20)
    assert view.values == {"a": b"1", "b": b"2"}
    assert view.resets == 0


async def test_what_was_acknowledged_here_and_never_seen_is_missed(
    bus: Bus, nats_server: LoopbackServer, spawn: Any
) -> None:
    """Its delivery was on the way when another leader without it took over."""
    view, reader = await following(bus, spawn, "a", "b")
    reader.witness(reader.sequence + 1, f"$KV.{LEDGER}.own", b"1")
    nats_server.lead_anew(STREAM, 0)
    await put_all(bus, ["other", "more"])
    await eventually(lambda: view.resets == 1 and set(view.values) == {"a", "b", "other", "more"})
