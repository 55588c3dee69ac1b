from __future__ import annotations

import asyncio
import base64
from collections import Counter

import pytest
from tests.libs.bus.queued import SUBJECTS, emptied, hand_back, left, send

from berth.bus import Bus, InvalidMessage, Message, jetstream
from berth.bus import consumer as consuming
from berth.bus import headers as h
from berth.bus.errors import BusError
from berth.testing.nats_server import NatsServer
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.views import eventually, eventually_async


async def test_commands_are_handled_in_order_and_leave_the_queue(bus: Bus, spawn) -> None:
    seen: list[Message] = []

    async def handle(message: Message) -> None:
        seen.append(message)

    await send(bus, 100)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS).run())
    await eventually(lambda: len(seen) == 100)
    assert [message.data for message in seen] == [b"%d" % number for number in range(100)]
    assert seen[0].id == "c0"
    assert seen[0].type == "bind.v1"
    assert (seen[0].deliveries, seen[0].sequence) == (1, 1)
    await emptied(bus)


async def test_a_failure_is_tried_again_after_a_pause(bus: Bus, spawn) -> None:
    tries: Counter[bytes] = Counter()

    async def handle(message: Message) -> None:
        tries[message.data] += 1
        if message.data == b"1" and message.deliveries < 3:
            raise RuntimeError("not yet")

    await send(bus, 3)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.05]).run())
    await emptied(bus)
    assert tries == {b"0": 1, b"1": 3, b"2": 1}
    assert await left(bus, "BERTH_DEAD") == 0


async def test_broken_messages_and_hopeless_ones_become_dead_letters(bus: Bus, spawn) -> None:
    async def handle(message: Message) -> None:
        if message.data == b"0":
            raise InvalidMessage("pod.uid", "is not\n  a text")
        if message.data == b"1":
            raise RuntimeError("secret detail")

    await send(bus, 3)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.02], max_deliver=3).run())
    await emptied(bus)
    assert await left(bus, "BERTH_DEAD") == 2
    letters = {}
    for sequence in (1, 2):
        raw = await jetstream.message_at(bus._link, "BERTH_DEAD", sequence)
        assert raw is not None
        letters[jetstream.payload(raw)] = h.parse(base64.b64decode(raw.hdrs)) | {"subject": raw.subject}
    assert letters[b"0"]["Berth-Dead-Reason"] == "pod.uid: is not a text"
    assert letters[b"0"]["Berth-Dead-Subject"] == "berth.v1.cmd.bind.ns.p0"
    assert letters[b"0"]["subject"] == "berth.v1.dead.writer.cmd.bind.ns.p0"
    assert letters[b"0"]["ce-id"] == "c0"
    assert letters[b"1"]["Berth-Dead-Reason"] == "RuntimeError after 3 deliveries"
    assert letters[b"1"]["Berth-Dead-Deliveries"] == "3"


async def test_a_message_that_kills_its_handler_is_not_given_for_ever(bus: Bus, spawn) -> None:
    """Deliveries that nobody answered count too: a process that dies over a message leaves no other trace."""
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        handled.append(message.data)

    await send(bus, 1)
    consumer = bus.consume("writer", handle, subjects=SUBJECTS, max_deliver=2)
    await hand_back(bus, consumer, 2)
    spawn(consumer.run())
    await emptied(bus)
    assert handled == []
    assert await left(bus, "BERTH_DEAD") == 1


async def test_a_slow_handler_is_not_given_the_message_twice(bus: Bus, spawn) -> None:
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0.9)
        handled.append(message.data)

    await send(bus, 3)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, ack_wait_s=1.0).run())
    await emptied(bus)
    assert handled == [b"0", b"1", b"2"]


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_subject_that_is_no_text_stops_nothing(bus: Bus, spawn) -> None:
    """The server takes any bytes in a subject, whoever sends them."""
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.subject)

    bus._link.client._pending.append(b"PUB berth.v1.cmd.bind.\xff 1\r\nx\r\n")
    await bus._link.client._flush_pending()
    await send(bus, 1)
    generation = bus._link.generation
    spawn(bus.consume("writer", handle, subjects=SUBJECTS).run())
    await eventually(lambda: "berth.v1.cmd.bind.ns.p0" in handled, deadline_s=8)
    assert bus._link.generation == generation


async def test_several_handlers_run_at_once(bus: Bus, spawn) -> None:
    running, most = 0, 0

    async def handle(message: Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1

    await send(bus, 30)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, concurrency=8).run())
    await emptied(bus)
    assert most == 8


async def test_kills_in_mid_work_lose_no_command(bus: Bus, nats_server: NatsServer, spawn) -> None:
    handled: Counter[bytes] = Counter()

    async def handle(message: Message) -> None:
        await asyncio.sleep(0.002)
        handled[message.data] += 1

    spawn(bus.consume("writer", handle, subjects=SUBJECTS, ack_wait_s=1.0, concurrency=4).run())
    for round_number in range(3):
        done = sum(handled.values())
        await asyncio.wait_for(send(bus, 100, round_number * 100), 60)
        await eventually(lambda done=done: sum(handled.values()) > done + 20)
        await asyncio.to_thread(nats_server.restart)
    await eventually(lambda: len(handled) == 300)
    await emptied(bus)


async def test_an_idle_queue_is_no_error_and_the_next_command_comes_at_once(
    bus: Bus, spawn, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(consuming, "PULL_S", 1)
    monkeypatch.setattr(consuming, "HEARTBEAT_S", 0.4)
    handled = asyncio.Event()

    async def handle(message: Message) -> None:
        handled.set()

    spawn(bus.consume("writer", handle, subjects=SUBJECTS).run())
    await asyncio.sleep(2.5)
    await send(bus, 1)
    await asyncio.wait_for(handled.wait(), 2)
    assert not [record for record in caplog.records if record.name == "berth.bus.consumer"]


async def test_a_deleted_consumer_or_stream_is_made_again(bus: Bus, spawn) -> None:
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        handled.append(message.data)

    spawn(bus.consume("writer", handle, subjects=SUBJECTS).run())
    await send(bus, 1)
    await emptied(bus)
    await jetstream.call(bus._link, "CONSUMER.DELETE.BERTH_CMD.writer")
    await send(bus, 1, 1)
    await emptied(bus)
    assert handled == [b"0", b"1"]
    await jetstream.call(bus._link, "STREAM.DELETE.BERTH_CMD")
    await bus.ensure()
    await send(bus, 1, 2)
    await eventually(lambda: handled == [b"0", b"1", b"2"])


async def test_settings_of_an_existing_consumer_are_updated(bus: Bus) -> None:
    async def handle(message: Message) -> None: ...

    await bus.consume("writer", handle, subjects=SUBJECTS, ack_wait_s=5.0)._ensure()
    await bus.consume("writer", handle, subjects=SUBJECTS, ack_wait_s=60.0)._ensure()
    info = await jetstream.call(bus._link, "CONSUMER.INFO.BERTH_CMD.writer")
    assert info["config"]["ack_wait"] == 60_000_000_000


async def test_what_is_held_at_the_end_goes_to_the_next_at_once(bus: Bus, connect, spawn) -> None:
    entered = asyncio.Event()

    async def stuck(message: Message) -> None:
        entered.set()
        await asyncio.sleep(3600)

    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        handled.append(message.data)

    await send(bus, 3)
    task = asyncio.create_task(bus.consume("writer", stuck, subjects=SUBJECTS, ack_wait_s=600.0).run())
    await asyncio.wait_for(entered.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    successor = await connect("successor")
    spawn(successor.consume("writer", handle, subjects=SUBJECTS, ack_wait_s=600.0).run())
    await eventually(lambda: sorted(handled) == [b"0", b"1", b"2"], deadline_s=10)


async def test_a_dead_letter_that_cannot_be_stored_is_not_lost(bus: Bus, spawn) -> None:
    async def handle(message: Message) -> None:
        raise InvalidMessage("", "never")

    await jetstream.call(bus._link, "STREAM.DELETE.BERTH_DEAD")
    await send(bus, 1)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, backoff_s=[0.1]).run())
    await asyncio.sleep(0.5)
    assert await left(bus) == 1
    await bus.ensure()
    await emptied(bus)
    assert await left(bus, "BERTH_DEAD") == 1


@pytest.mark.parametrize("bad", [{"concurrency": 0}, {"max_deliver": 0}, {"backoff_s": []}, {"ack_wait_s": 0.1}])
async def test_senseless_settings_are_errors(bus: Bus, bad: dict) -> None:
    async def handle(message: Message) -> None: ...

    with pytest.raises(ValueError, match="at least 1"):
        bus.consume("writer", handle, subjects=SUBJECTS, **bad)


async def ahead(bus: Bus, server: NatsServer | LoopbackServer, sequence: int) -> None:
    """As after a stream lost its tail and the consumer did not: it waits for this sequence."""
    if isinstance(server, LoopbackServer):
        consumer = server.nats.streams["BERTH_CMD"].consumers["writer"]
        consumer.position = sequence - 1
        consumer.rewind()
    else:
        await jetstream.call(bus._link, "CONSUMER.RESET.BERTH_CMD.writer", {"seq": sequence})


async def test_a_consumer_ahead_of_its_stream_is_made_anew(
    bus: Bus, nats_server: NatsServer | LoopbackServer, spawn
) -> None:
    seen: list[bytes] = []

    async def handle(message: Message) -> None:
        seen.append(message.data)

    await send(bus, 1)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS).run())
    await emptied(bus)
    await ahead(bus, nats_server, 1000)
    await eventually_async(lambda: is_level(bus), deadline_s=20)
    await send(bus, 3, first=1)
    await emptied(bus)
    assert seen == [b"0", b"1", b"2", b"3"]


async def is_level(bus: Bus) -> bool:
    try:
        info = await jetstream.call(bus._link, "CONSUMER.INFO.BERTH_CMD.writer")
    except BusError:
        return False  # it is being made anew
    return int(info["delivered"]["stream_seq"]) <= await last(bus)


async def last(bus: Bus) -> int:
    return (await jetstream.stream_info(bus._link, "BERTH_CMD")).state.last_seq


@pytest.mark.asyncio(loop_factories=["simulated"])
async def test_a_consumer_whose_server_hears_of_nothing_is_made_anew(
    bus: Bus, nats_server: LoopbackServer, spawn
) -> None:
    seen: list[bytes] = []

    async def handle(message: Message) -> None:
        seen.append(message.data)

    await send(bus, 1)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS).run())
    await emptied(bus)
    (consumer,) = nats_server.nats.streams["BERTH_CMD"].consumers.values()
    consumer.stranded = True
    await send(bus, 2, first=1)
    await asyncio.sleep(10)
    assert seen == [b"0", b"1", b"2"]


@pytest.mark.asyncio(loop_factories=["simulated"])
async def test_a_queue_that_waits_for_its_handlers_is_no_reason_to_make_the_consumer_anew(
    bus: Bus, nats_server: LoopbackServer, spawn
) -> None:
    async def handle(message: Message) -> None:
        if message.data == b"0":
            await asyncio.sleep(30)
        elif message.deliveries < 3:
            raise RuntimeError("not yet")

    await send(bus, 40)
    spawn(bus.consume("writer", handle, subjects=SUBJECTS, concurrency=2, backoff_s=[15]).run())
    await asyncio.sleep(1)
    made = nats_server.nats.streams["BERTH_CMD"].consumers["writer"]
    await emptied(bus)
    assert nats_server.nats.streams["BERTH_CMD"].consumers["writer"] is made
