from __future__ import annotations

import asyncio
import time

import pytest

from berth.bus import Bus, Write, jetstream
from berth.bus import follower as following
from berth.bus.topology import TOPOLOGY
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually, eventually_async

STATE = "berth_state"
CONFIG = {item.name: item.config(1) for item in TOPOLOGY}


async def put(bus: Bus, key: str, value: bytes, bucket: str = STATE) -> int:
    msg = await bus._link.request(f"$KV.{bucket}.{key}", value, timeout_s=5)
    ack = jetstream.decode_ack(msg.data)
    assert ack.error is None
    return ack.seq


async def recreate(bus: Bus, bucket: str = STATE) -> None:
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{bucket}")
    await jetstream.call(bus._link, f"STREAM.CREATE.KV_{bucket}", CONFIG[bucket])


async def consumers(bus: Bus, bucket: str = STATE) -> int:
    return (await jetstream.stream_info(bus._link, f"KV_{bucket}")).state.consumer_count


async def test_an_empty_bucket_is_complete_at_once(bus: Bus, spawn) -> None:
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 5)
    assert view.ends == [0]
    assert view.entries == []


async def test_what_is_there_comes_first_then_what_happens_in_order(bus: Bus, spawn) -> None:
    for number in range(20):
        await put(bus, f"pod.ns.p{number % 10}", b"%d" % number)
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 5)
    assert view.values == {f"pod.ns.p{number % 10}": b"%d" % number for number in range(10, 20)}
    assert view.ends == [20]
    assert [entry.pending for entry in view.entries] == list(range(9, -1, -1))
    assert [entry.gap for entry in view.entries] == [True] + [False] * 9
    await put(bus, "pod.ns.p3", b"new")
    await eventually(lambda: view.values["pod.ns.p3"] == b"new")
    last = view.entries[-1]
    assert (last.sequence, last.pending, last.gap, last.deleted) == (21, 0, False, False)
    assert view.ends == [20, 21]
    assert follower.sequence == 21


async def test_an_entry_says_when_the_server_stored_it(bus: Bus, spawn) -> None:
    for name in ("a", "b"):
        await put(bus, f"pod.ns.{name}", b"x")
        await asyncio.sleep(0.5)
    view = View()
    spawn(bus.follow(STATE, view).run())
    await eventually(lambda: len(view.entries) == 2)
    first, second = (entry.stored_s for entry in view.entries)
    assert first > 1_700_000_000
    assert 0.4 < second - first < 5


async def test_the_end_is_told_again_while_nothing_comes(bus: Bus, spawn) -> None:
    """Who doubts its view learns in a quiet cluster, too, that there is nothing newer."""
    await put(bus, "pod.ns.p", b"x")
    view = View()
    spawn(bus.follow(STATE, view).run())
    await eventually(lambda: view.idle_ends >= 2)
    assert (view.ends, view.resets) == ([1], 0)
    await put(bus, "pod.ns.p", b"y")
    await eventually(lambda: view.ends == [1, 2])


async def test_deletions_carry_their_payload_and_traces_come_along(bus: Bus, spawn) -> None:
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    # A later follower is sent the deletion alone.
    await asyncio.wait_for(follower.ready.wait(), 5)
    owned = bus.owned(STATE)
    owned.put("pod.ns.a", b"1", traceparent="00-11-22-01")
    await eventually(lambda: len(view.entries) == 1)
    owned.delete("pod.ns.a", b'{"version":7}')
    await owned.drain()
    await eventually(lambda: len(view.entries) == 2)
    assert view.entries[0].traceparent == "00-11-22-01"
    assert view.entries[1].deleted
    assert view.entries[1].value == b'{"version":7}'
    assert view.entries[1].traceparent is None
    assert view.values == {}


async def test_keys_narrow_the_view(bus: Bus, spawn) -> None:
    await put(bus, "pod.ns.a", b"1")
    await put(bus, "node.n1", b"1")
    view = View()
    follower = bus.follow(STATE, view, keys="node.>")
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 5)
    assert view.values == {"node.n1": b"1"}


async def test_follows_again_within_seconds_of_a_kill(bus: Bus, nats_server: NatsServer, spawn) -> None:
    view = View()
    follower = bus.follow("berth_ledger", view)
    spawn(follower.run())
    ledger = bus.ledger()
    await ledger.commit([Write("a", b"0", 0)])
    await eventually(lambda: "a" in view.values)
    blind_s = []
    for number in range(3):
        nats_server.restart()
        started = time.monotonic()
        await eventually_async(lambda number=number: _try_put(bus, f"c{number}"))
        await eventually(lambda number=number: f"c{number}" in view.values)
        blind_s.append(time.monotonic() - started)
    assert view.resets == 0
    assert [entry.sequence for entry in view.entries] == sorted({entry.sequence for entry in view.entries})
    assert min(blind_s) < 2
    assert await consumers(bus, "berth_ledger") == 1


async def _try_put(bus: Bus, key: str) -> bool:
    try:
        await put(bus, key, b"x", "berth_ledger")
    except Exception:
        return False
    return True


async def test_nothing_is_missed_or_repeated_over_kills_in_mid_stream(
    bus: Bus, connect, nats_server: NatsServer, spawn
) -> None:
    """A writer commits while the server is killed: the view equals the bucket, every sequence came once, in order."""
    view, writer = View(), (await connect("writer")).ledger()
    follower = bus.follow("berth_ledger", view)
    spawn(follower.run())

    async def write() -> None:
        number = 0
        while True:
            await writer.commit([Write(f"k{number}.{index}", b"v", 0) for index in range(20)])
            number += 1
            await asyncio.sleep(0.001)

    task = spawn(write())
    for _ in range(4):
        seen = len(view.entries)
        await eventually(lambda seen=seen: len(view.entries) > seen + 100)
        await asyncio.to_thread(nats_server.restart)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.connected.wait()

    async def caught_up() -> bool:
        return follower.sequence == (await jetstream.stream_info(bus._link, "KV_berth_ledger")).state.last_seq

    await eventually_async(caught_up)
    assert [entry.sequence for entry in view.entries] == list(range(1, follower.sequence + 1))
    assert not any(entry.gap for entry in view.entries)
    assert view.resets == 0


async def test_a_stream_deleted_and_made_again_starts_the_view_over(bus: Bus, spawn) -> None:
    view = View()
    spawn(bus.follow(STATE, view).run())
    await put(bus, "old", b"1")
    await eventually(lambda: view.values == {"old": b"1"})
    await recreate(bus)
    await put(bus, "new", b"2")
    await put(bus, "newer", b"2")
    await eventually(lambda: view.values == {"new": b"2", "newer": b"2"})
    assert view.resets == 1
    assert view.entries[1].sequence == 1


async def test_a_missing_bucket_is_waited_for(connect, spawn) -> None:
    bus, view = await connect(), View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await asyncio.sleep(0.2)
    assert not follower.ready.is_set()
    await bus.ensure()
    await asyncio.wait_for(follower.ready.wait(), 10)


@pytest.mark.parametrize("went_on", [0, 1, 5, 20])
async def test_a_lost_tail_starts_the_view_over(bus: Bus, nats_server: NatsServer, spawn, went_on: int) -> None:
    """The store is as it was before the last five messages; others may have written since, past what was seen."""
    ledger, view = bus.ledger(), View()
    follower = bus.follow("berth_ledger", view)
    spawn(follower.run())
    await ledger.commit([Write(f"kept.{number}", b"1", 0) for number in range(5)])
    saved = await asyncio.to_thread(_save_while_down, nats_server)
    await asyncio.wait_for(bus.connected.wait(), 20)
    await ledger.commit([Write(f"lost.{number}", b"1", 0) for number in range(5)])
    await eventually(lambda: len(view.values) == 10)

    nats_server.kill()
    nats_server.restore_store(saved)
    await eventually(lambda: not bus.connected.is_set())
    nats_server.start()
    late = {f"late.{number}": b"1" for number in range(went_on)}
    if late:
        # Written before the follower is back, so that the end of the stream alone may look unharmed.
        await _before_the_follower(bus, [Write(key, value, 0) for key, value in late.items()])
    await eventually(lambda: view.values == {f"kept.{number}": b"1" for number in range(5)} | late)
    assert view.resets == 1


def _save_while_down(server: NatsServer):
    server.kill()
    saved = server.save_store()
    server.start()
    return saved


async def _before_the_follower(bus: Bus, writes: list[Write]) -> None:
    while True:
        await bus.connected.wait()
        outcome = await bus.ledger().commit(writes)
        if type(outcome).__name__ == "Committed":
            return
        await asyncio.sleep(0.005)


async def test_an_absence_longer_than_markers_live_starts_the_view_over(
    bus: Bus, nats_server: NatsServer, spawn, monkeypatch
) -> None:
    view = View()
    spawn(bus.follow("berth_ledger", view).run())
    await bus.ledger().commit([Write("a", b"1", 0)])
    await eventually(lambda: view.values == {"a": b"1"})
    monkeypatch.setattr(following, "ABSENCE_MAX_S", 0.0)
    nats_server.restart()
    await eventually(lambda: view.resets == 1)
    await eventually(lambda: view.values == {"a": b"1"})


async def test_a_consumer_that_vanishes_is_replaced(bus: Bus, spawn) -> None:
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await follower.ready.wait()
    await jetstream.call(bus._link, f"CONSUMER.DELETE.KV_{STATE}.{follower._consumer}")
    await put(bus, "a", b"1")
    await eventually(lambda: view.values == {"a": b"1"})
    assert view.resets == 0


async def test_a_paused_server_is_noticed_and_followed_again(
    bus: Bus, nats_server: NatsServer, spawn, monkeypatch
) -> None:
    monkeypatch.setattr(following, "SILENCE_MAX_S", 1.2)
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await follower.ready.wait()
    first = follower._consumer
    nats_server.pause()
    await asyncio.sleep(1.5)
    nats_server.resume()
    await put(bus, "a", b"1")
    await eventually(lambda: view.values == {"a": b"1"})
    assert follower._consumer != first or len(view.entries) == 1
    assert view.resets == 0


async def test_a_delivery_that_was_lost_on_the_way_is_read_again(bus: Bus, spawn) -> None:
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await follower.ready.wait()
    receive = follower._subscription.taker  # type: ignore[union-attr]
    dropped = []

    def lossy(msg) -> None:
        if msg.subject.endswith(".lost") and not dropped:
            dropped.append(msg)
            return
        receive(msg)

    follower._subscription.replace(lossy)  # type: ignore[union-attr]
    await put(bus, "before", b"1")
    await put(bus, "lost", b"1")
    await put(bus, "after", b"1")
    await eventually(lambda: len(view.values) == 3)
    assert dropped
    assert [entry.key for entry in view.entries] == ["before", "lost", "after"]
    assert not any(entry.gap for entry in view.entries)


async def test_no_consumer_is_left_behind(bus: Bus) -> None:
    for _ in range(10):
        follower = bus.follow(STATE, View())
        task = asyncio.create_task(follower.run())
        await asyncio.wait_for(follower.ready.wait(), 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def none_left() -> bool:
        return await consumers(bus) == 0

    await eventually_async(none_left, deadline_s=5)


async def test_a_sink_that_raises_ends_the_follower(bus: Bus) -> None:
    class Faulty(View):
        def apply(self, entry) -> None:
            raise RuntimeError("no view without this entry")

    task = asyncio.create_task(bus.follow(STATE, Faulty()).run())
    await put(bus, "a", b"1")
    with pytest.raises(RuntimeError, match="no view"):
        await asyncio.wait_for(task, 10)


async def test_twenty_thousand_entries_come_through_in_order(bus: Bus, spawn) -> None:
    owned = bus.owned(STATE)
    for number in range(20_000):
        owned.put(f"pod.ns.p{number}", b"x" * 200)
        if number % 500 == 0:
            await owned.wait_while_full()
    await owned.drain()
    await owned.close()
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 30)
    assert [entry.sequence for entry in view.entries] == list(range(1, 20_001))
    assert view.resets == 0


@pytest.mark.parametrize("reply", ["", "$JS.ACK", "$JS.ACK.a.b.c.d.e.f.g", "1.2.3.4.5.6.7.8.9", "x" * 500])
def test_a_malformed_reply_subject_is_no_position(reply: str) -> None:
    if reply == "1.2.3.4.5.6.7.8.9":
        assert following._position(reply) == (6, 7, 8, 9)
        return
    with pytest.raises((ValueError, IndexError)):
        following._position(reply)


def test_reply_subjects_of_both_forms_are_read() -> None:
    plain = following._position("$JS.ACK.KV_x.c.1.41.42.1795262309713398996.7")
    domain = following._position("$JS.ACK.hub.ACCHASH.KV_x.c.1.41.42.1795262309713398996.7.token")
    assert plain == domain
    assert plain == (41, 42, 1795262309713398996, 7)


async def test_what_is_acknowledged_while_the_stream_is_looked_at_is_no_lost_tail(bus: Bus, spawn, monkeypatch) -> None:
    """A write of this process is stored behind the answer that is on its way."""
    view = View()
    follower = bus.follow(STATE, view)
    spawn(follower.run())
    await put(bus, "pod.ns.a", b"1")
    await eventually(lambda: view.values)
    ask, is_first = jetstream.stream_info, True

    async def overtaken(link, stream):
        nonlocal is_first
        info = await ask(link, stream)
        if is_first:
            is_first = False
            follower.witness(await put(bus, "pod.ns.b", b"2"), f"$KV.{STATE}.pod.ns.b", b"2")
        return info

    monkeypatch.setattr(following.jetstream, "stream_info", overtaken)
    follower.begin_again("for the test")
    await eventually(lambda: len(view.values) == 2)
    assert not is_first
    assert view.resets == 0
