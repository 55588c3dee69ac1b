"""Messages that nobody sends again outlast an outage; what fails by itself ends all the same."""

from __future__ import annotations

import asyncio
import base64

import pytest
from tests.libs.bus.queued import SUBJECTS, emptied, hand_back, left, send

from berth.bus import Bus, Message, RetryLater, jetstream
from berth.bus import consumer as consuming
from berth.bus import headers as h
from berth.testing.views import eventually

PATIENT = {"bind.v1": 3600.0}


async def test_an_outage_does_not_end_a_message_that_nobody_sends_again(bus: Bus, spawn, monkeypatch) -> None:
    monkeypatch.setattr(consuming, "PAUSE_S", 0.05)
    tries: list[int] = []

    async def handle(message: Message) -> None:
        tries.append(message.deliveries)
        if message.deliveries < 9:
            raise RetryLater("the API server is away")

    await send(bus, 1)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.02], max_deliver=3, patience_s=PATIENT).run())
    await emptied(bus)
    assert tries == list(range(1, 10))
    assert await left(bus, "BERTH_DEAD") == 0


@pytest.mark.parametrize("patience_s", [{}, {"bind.v1": 0.0}, {"other.v1": 3600.0}], ids=["none", "over", "for others"])
async def test_an_outage_ends_what_is_sent_again(bus: Bus, spawn, patience_s: dict) -> None:
    tries: list[int] = []

    async def handle(message: Message) -> None:
        tries.append(message.deliveries)
        raise RetryLater("the API server is away")

    await send(bus, 1)
    spawn(
        bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.02], max_deliver=3, patience_s=patience_s).run()
    )
    await emptied(bus)
    assert tries == [1, 2, 3]
    assert await left(bus, "BERTH_DEAD") == 1


async def test_patience_ends_some_time_after_the_message_was_stored(bus: Bus, spawn, monkeypatch) -> None:
    monkeypatch.setattr(consuming, "PAUSE_S", 0.2)
    tries: list[int] = []

    async def handle(message: Message) -> None:
        tries.append(message.deliveries)
        raise RetryLater("the API server is away")

    await send(bus, 1)
    spawn(
        bus.consume(
            "writer", handle, subjects=SUBJECTS, backoff_s=[0.02], max_deliver=2, patience_s={"bind.v1": 1.0}
        ).run()
    )
    await emptied(bus)
    assert 3 <= len(tries) <= 7
    assert await left(bus, "BERTH_DEAD") == 1


async def test_failures_of_its_own_end_a_patient_message_as_any_other(bus: Bus, spawn, monkeypatch) -> None:
    monkeypatch.setattr(consuming, "PAUSE_S", 0.05)
    tries: list[int] = []

    async def handle(message: Message) -> None:
        tries.append(message.deliveries)
        raise RetryLater("the API server is away") if message.deliveries in (1, 2, 4, 6) else RuntimeError("a defect")

    await send(bus, 1)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.02], max_deliver=3, patience_s=PATIENT).run())
    await emptied(bus)
    assert tries == [1, 2, 3, 4, 5, 6, 7]
    raw = await jetstream.message_at(bus._link, "BERTH_DEAD", 1)
    assert raw is not None
    assert h.parse(base64.b64decode(raw.hdrs))["Berth-Dead-Reason"] == "RuntimeError after 7 deliveries"


async def test_a_patient_message_that_changed_hands_often_is_put_off_once_and_tried(
    bus: Bus, spawn, monkeypatch
) -> None:
    monkeypatch.setattr(consuming, "PAUSE_S", 0.3)
    handled: list[int] = []

    async def handle(message: Message) -> None:
        handled.append(message.deliveries)

    await send(bus, 1)
    consumer = bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.02], max_deliver=2, patience_s=PATIENT)
    await hand_back(bus, consumer, 4)
    begun = asyncio.get_running_loop().time()
    spawn(consumer.run())
    await emptied(bus)
    assert handled == [6], "the fifth delivery was put off"
    assert asyncio.get_running_loop().time() - begun >= 0.3
    assert await left(bus, "BERTH_DEAD") == 0


async def test_patient_messages_that_hang_leave_room_for_others(bus: Bus, spawn, monkeypatch) -> None:
    monkeypatch.setattr(consuming, "PAUSE_S", 0.05)
    hanging, most, seen = 0, 0, asyncio.Event()

    async def handle(message: Message) -> None:
        nonlocal hanging, most
        if message.data == b"99":
            return seen.set()
        if message.deliveries > 2:
            hanging += 1
            most = max(most, hanging)
            await asyncio.sleep(1.0)
            hanging -= 1
        raise RetryLater("the API server is away")

    await send(bus, 30)
    spawn(
        bus.consume(
            "writer", handle, subjects=SUBJECTS, concurrency=2, backoff_s=[0.02], max_deliver=2, patience_s=PATIENT
        ).run()
    )
    await eventually(lambda: hanging, deadline_s=10)
    await send(bus, 1, 99)
    await asyncio.wait_for(seen.wait(), 0.9)
    await asyncio.sleep(2.5)
    assert most == 1


async def test_a_thousand_messages_that_wait_hold_up_no_other(bus: Bus, spawn) -> None:
    failed: set[bytes] = set()
    seen = asyncio.Event()

    async def handle(message: Message) -> None:
        if message.data == b"1100":
            return seen.set()
        failed.add(message.data)
        raise RetryLater("the API server is away")

    await send(bus, 1101)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, concurrency=8, backoff_s=[60.0], patience_s=PATIENT).run())
    await asyncio.wait_for(seen.wait(), 20)
    assert len(failed) == 1100
