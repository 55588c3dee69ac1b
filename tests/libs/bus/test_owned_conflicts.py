"""Two that write the same keys: the one that is behind is refused and told, and neither loses count."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.libs.bus.stored import STATE, last_sequence, read

from berth.bus import Bus, jetstream
from berth.testing.views import View, eventually


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


async def test_what_was_shown_while_a_write_was_under_way_is_shown_once_more_when_that_is_refused(
    bus: Bus, monkeypatch
) -> None:
    """The owner who sees it puts his own again, which is on its way already, and takes that for what stands there."""
    view = View()
    owned = bus.owned(STATE, sink=view, on_conflict=lambda key: told.append(view.values[key]))
    told: list[bytes] = []
    owned.put("a", b"1")
    await owned.drain()
    publish, asked = bus._link.publish, []

    async def late(subject: str, payload: bytes = b"", **more: Any) -> None:
        if payload == b"mine":
            asked.append((subject, payload, more))
        else:
            await publish(subject, payload, **more)

    monkeypatch.setattr(bus._link, "publish", late)
    owned.put("a", b"mine")
    await eventually(lambda: len(asked) == 1)
    await bus._link.request(f"$KV.{STATE}.a", b"foreign", timeout_s=5)
    await eventually(lambda: view.values["a"] == b"foreign")
    assert not owned.put("a", b"mine")
    view.values["a"] = b"mine"  # as the views of those who own a bucket do
    await publish(asked[0][0], asked[0][1], **asked[0][2])
    await owned.drain()
    assert told == [b"foreign"]


async def test_what_is_shown_while_a_doubtful_write_is_asked_about_is_not_taken_for_older_than_the_answer(
    bus: Bus, monkeypatch
) -> None:
    view = View()
    owned = bus.owned(STATE, sink=view, on_conflict=lambda key: told.append(view.values[key]))
    told: list[bytes] = []
    owned.put("a", b"1")
    await owned.drain()
    subscription, unread = owned._follower._subscription, []  # type: ignore[union-attr]
    receive = subscription.taker  # type: ignore[union-attr]
    subscription.replace(unread.append)  # type: ignore[union-attr]
    await bus._link.request(f"$KV.{STATE}.a", b"first", timeout_s=5)
    newest, answers = jetstream.newest, []

    async def late(*asked: Any) -> Any:
        answer = await newest(*asked)
        answers.append(answer.value)
        await bus._link.request(f"$KV.{STATE}.a", b"second", timeout_s=5)
        await eventually(lambda: len(unread) >= 2)
        for msg in unread:
            receive(msg)
        await eventually(lambda: view.values["a"] == b"second")
        return answer

    monkeypatch.setattr(jetstream, "newest", late)
    owned.put("a", b"mine")
    await owned.drain()
    assert answers == [b"first"]
    assert view.values["a"] == b"second"
    assert told == [b"second"]


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
