"""A follower compares with the stream's leader, also while its own connection stands.

In a cluster a stream may come to be led by a server that lacks its newest messages, without a word to those who are
connected to another one: their consumers go on, behind the end of the stream, and show nothing of what takes the place
of the lost.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.bus.test_follower_history import LEDGER, following, put, put_all

from berth.bus import Bus
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.views import eventually

STREAM = f"KV_{LEDGER}"
pytestmark = [
    pytest.mark.asyncio(loop_factories=["simulated"]),
    pytest.mark.xfail(strict=True, reason="only a connection that breaks makes a follower compare"),
]


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
