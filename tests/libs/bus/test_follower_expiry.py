"""What expires while it is read: counted as pending when the consumer is made, and never delivered."""

from __future__ import annotations

import asyncio

from tests.libs.bus.stored import STATE

from berth.bus import Bus
from berth.bus.follower import Follower
from berth.testing.views import View, eventually


async def test_the_end_comes_though_the_only_message_expired_on_the_way(bus: Bus, spawn, monkeypatch) -> None:
    create, made = Follower._create, []

    async def one_too_many(self: Follower, inbox: str) -> int:
        made.append(inbox)
        pending = await create(self, inbox)
        return pending + 1 if len(made) == 1 else pending

    monkeypatch.setattr(Follower, "_create", one_too_many)
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 15)
    assert (view.entries, view.ends, view.resets) == ([], [0], 0)
    await bus._link.request(f"$KV.{STATE}.a", b"1", timeout_s=5)
    await eventually(lambda: view.ends == [0, 1])
    assert view.values == {"a": b"1"}
