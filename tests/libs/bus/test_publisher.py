from __future__ import annotations

import asyncio

import pytest

from berth.bus import Bus, jetstream
from berth.bus import headers as h
from berth.bus.publisher import Publisher, batch_pause_s
from berth.testing.nats_server import NatsServer
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.views import eventually

SUBJECT = "berth.v1.evt.placement.bound.ns.p"


async def stored(bus: Bus, stream: str = "BERTH_EVT") -> int:
    return (await jetstream.stream_info(bus._link, stream)).state.messages


async def test_events_carry_cloud_event_attributes_and_the_trace(bus: Bus) -> None:
    await bus.events().publish(SUBJECT, b"{}", id="p-1", type="placement.bound.v1", traceparent="00-1-2-01")
    await bus.events().publish(SUBJECT, b"{}", id="ungewöhnlich\r\nX: y", type="t")
    await bus.events().drain()
    raw = await jetstream.message_at(bus._link, "BERTH_EVT", 1)
    assert raw is not None
    headers = h.parse(jetstream.base64.b64decode(raw.hdrs))
    assert headers["ce-id"] == headers["Nats-Msg-Id"] == "p-1"
    assert headers["ce-type"] == "placement.bound.v1"
    assert headers["ce-source"] == "berth/tester"
    assert headers["ce-specversion"] == "1.0"
    assert headers["ce-time"].endswith("Z")
    assert headers["traceparent"] == "00-1-2-01"
    odd = await jetstream.message_at(bus._link, "BERTH_EVT", 2)
    assert odd is not None
    headers = h.parse(jetstream.base64.b64decode(odd.hdrs))
    assert headers["ce-id"] == "ungew%C3%B6hnlich%0D%0AX: y"
    assert "X" not in headers


async def test_the_same_identity_is_stored_once(bus: Bus) -> None:
    for _ in range(3):
        await bus.events().publish(SUBJECT, b"{}", id="same", type="t")
    await bus.events().drain()
    assert await stored(bus) == 1


async def test_order_is_kept_and_many_are_in_flight(bus: Bus) -> None:
    seen: list[bytes] = []

    async def note(message) -> None:
        seen.append(message.data)

    await bus.subscribe("berth.v1.evt.>", note)
    for number in range(2000):
        await bus.events().publish(f"{SUBJECT}{number}", b"%d" % number, id=f"i{number}", type="t")
    await asyncio.wait_for(bus.events().drain(), 60)
    assert await stored(bus) == 2000
    await eventually(lambda: len(seen) == 2000)
    assert seen == [b"%d" % number for number in range(2000)]


async def test_kills_lose_no_event_and_store_none_twice(bus: Bus, nats_server: NatsServer) -> None:
    events = bus.events()

    async def publish() -> None:
        for number in range(600):
            await events.publish(f"{SUBJECT}{number}", b"%d" % number, id=f"i{number}", type="t")
            await asyncio.sleep(0.002)

    task = asyncio.create_task(publish())
    for _ in range(3):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(nats_server.restart)
    await task
    await asyncio.wait_for(events.drain(), 60)
    assert await stored(bus) == 600


async def test_what_the_stream_is_missing_waits_for_it(connect) -> None:
    bus = await connect()
    await bus.commands().publish("berth.v1.cmd.bind.ns.p", b"{}", id="1", type="t")
    await asyncio.sleep(0.2)
    await bus.ensure()
    await asyncio.wait_for(bus.commands().drain(), 30)
    assert await stored(bus, "BERTH_CMD") == 1


async def test_a_full_queue_holds_publish_back_and_drops_offers(bus: Bus, nats_server: NatsServer) -> None:
    events = Publisher(bus._link, "BERTH_EVT", clock=bus._clock, queue=5)
    nats_server.kill()
    taken = [events.offer(SUBJECT, b"{}", id=str(number), type="t") for number in range(7)]
    assert taken == [True] * 5 + [False] * 2
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(events.publish(SUBJECT, b"{}", id="8", type="t"), 0.2)
    nats_server.start()
    await asyncio.wait_for(events.publish(SUBJECT, b"{}", id="9", type="t"), 20)
    await asyncio.wait_for(events.drain(), 20)
    assert await stored(bus) == 6
    await events.close()


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, 0.1), (0.004, 0.1), (0.01, 0.25), (0.02, 0.5), (3.0, 0.5)])
def test_batches_are_fewer_where_each_takes_long(took_s: float, pause_s: float) -> None:
    assert batch_pause_s(took_s) == pytest.approx(pause_s)


async def test_a_closed_publisher_leaves_no_subscription(bus: Bus) -> None:
    before = len(bus._link._subscriptions)
    events = Publisher(bus._link, "BERTH_EVT", clock=bus._clock)
    await events.publish(SUBJECT, b"{}", id="1", type="t")
    await events.drain()
    await events.close()
    assert len(bus._link._subscriptions) == before


async def test_what_is_refused_for_good_is_dropped_and_the_rest_goes_on(bus: Bus) -> None:
    config = (await jetstream.stream_info(bus._link, "BERTH_EVT")).config
    await jetstream.call(bus._link, "STREAM.UPDATE.BERTH_EVT", config | {"max_msg_size": 1000})
    await bus.events().publish(SUBJECT, b"x" * 5000, id="1", type="t")
    await bus.events().publish(SUBJECT, b"x", id="2", type="t")
    await asyncio.wait_for(bus.events().drain(), 10)
    assert await stored(bus) == 1


@pytest.mark.asyncio(loop_factories=["simulated"])
async def test_what_a_leader_has_proposed_and_may_yet_lose_is_sent_again(bus: Bus, nats_server: LoopbackServer) -> None:
    undecided = nats_server.nats.streams["BERTH_EVT"].undecided
    undecided.add("1")
    await bus.events().publish(SUBJECT, b"x", id="1", type="t")
    await asyncio.sleep(10)
    assert await stored(bus) == 0
    undecided.clear()
    await asyncio.wait_for(bus.events().drain(), 10)
    assert await stored(bus) == 1


async def test_too_large_a_payload_is_an_error(bus: Bus) -> None:
    with pytest.raises(ValueError, match="too large"):
        await bus.events().publish(SUBJECT, b"x" * (1 << 20), id="1", type="t")
