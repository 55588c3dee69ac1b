"""Writes whose acknowledgement is late or never comes: settled by reading, in order, and no conflict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.libs.bus.stored import STATE, last_sequence, read

from berth.bus import Bus, window
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually


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


@pytest.mark.parametrize("before", [b"old", None])
async def test_a_late_write_does_not_outlive_the_return_to_what_was_there(bus: Bus, before: bytes | None) -> None:
    """A write is given up, the owner wants what the key still holds after all, and then that write arrives."""
    owned = bus.owned(STATE)
    await owned.ready()
    if before is not None:
        owned.put("a", before)
        await owned.drain()
    publish, late = bus._link.publish, []

    async def delayed(subject: str, payload: bytes = b"", **rest: Any) -> None:
        if late or not subject.startswith("$KV."):
            await publish(subject, payload, **rest)
            return
        late.append((subject, payload, rest["headers"]))
        owned._window._finish(rest["reply"].rsplit(".", 1)[1], "no acknowledgement in time")
        if before is None:
            owned.delete("a")
        else:
            owned.put("a", before)

    bus._link.publish = delayed  # type: ignore[method-assign]
    owned.put("a", b"new")
    await eventually(lambda: late)
    await asyncio.wait_for(owned.drain(), 10)
    for subject, payload, headers in late:
        await publish(subject, payload, headers=headers)
    await bus._link.flush()
    await asyncio.sleep(0.5)
    await asyncio.wait_for(owned.drain(), 10)
    assert await read(bus, "a") == before


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
