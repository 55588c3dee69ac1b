from __future__ import annotations

import asyncio
import time

import pytest

from berth.bus import Bus, Committed, Disconnected, Refused, Unknown, Write, jetstream
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually, eventually_async


def writes(prefix: str, count: int, value: bytes = b"v", expected: int = 0) -> list[Write]:
    return [Write(f"e1.{prefix}.{number}", value, expected) for number in range(count)]


async def test_a_batch_is_stored_whole_and_in_order(bus: Bus, spawn) -> None:
    view = View()
    spawn(bus.follow("berth_ledger", view).run())
    ledger = bus.ledger()
    assert await ledger.commit(writes("decision", 3), traceparent="00-aa-bb-01") == Committed(3)
    await eventually(lambda: len(view.entries) == 3)
    assert [entry.key for entry in view.entries] == ["e1.decision.0", "e1.decision.1", "e1.decision.2"]
    assert [entry.sequence for entry in view.entries] == [1, 2, 3]
    assert not any(entry.gap for entry in view.entries)
    assert {entry.traceparent for entry in view.entries} == {"00-aa-bb-01"}


async def test_one_stale_sequence_refuses_everything(bus: Bus) -> None:
    ledger = bus.ledger()
    assert await ledger.commit([Write("a", b"1", 0), Write("b", b"1", 0)]) == Committed(2)
    outcome = await ledger.commit([Write("c", b"2", 0), Write("a", b"2", 1), Write("b", b"2", 1)])
    assert isinstance(outcome, Refused)
    assert outcome.code in (10071, 10164)
    assert (await ledger.read("a") or ())[:3] == (1, b"1", False)
    assert await ledger.read("c") is None
    assert await ledger.commit([Write("c", b"2", 0), Write("a", b"2", 1), Write("b", b"2", 2)]) == Committed(5)


async def test_contenders_for_one_account_have_one_winner_a_round(connect, bus: Bus) -> None:
    rivals = [await connect(f"solver-{number}") for number in range(4)]
    expected = 0
    for round_number in range(10):
        batches = [
            [Write(f"decision.{round_number}.{rival}", b"d", 0), Write("account", b"%d" % rival, expected)]
            for rival in range(4)
        ]
        outcomes = await asyncio.gather(*(bus.ledger().commit(b) for bus, b in zip(rivals, batches, strict=True)))
        won = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Committed)]
        assert len(won) == 1
        assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 3
        account = await bus.ledger().read("account")
        assert account is not None
        assert account.value == b"%d" % won[0]
        expected = account.sequence
        for rival in range(4):
            decision = await bus.ledger().read(f"decision.{round_number}.{rival}")
            assert (decision is not None) == (rival in won)


async def test_a_deletion_marker_travels_in_a_batch(bus: Bus, spawn) -> None:
    view = View()
    spawn(bus.follow("berth_ledger", view).run())
    ledger = bus.ledger()
    await ledger.commit([Write("a", b"1", 0)])
    assert await ledger.commit([Write("a", None, 1), Write("b", b"1", 0)]) == Committed(3)
    assert (await ledger.read("a") or ())[:3] == (2, b"", True)
    await eventually(lambda: view.values == {"b": b"1"})
    raw = await jetstream.find(bus._link, "KV_berth_ledger", {"seq": 2})
    assert raw is not None
    assert raw.hdrs
    # The marker has a sequence: 0 is not what the next write expects.
    assert isinstance(await ledger.commit([Write("a", b"2", 0)]), Refused)
    assert await ledger.commit([Write("a", b"2", 2)]) == Committed(4)


async def test_a_thousand_messages_commit_and_one_more_is_refused_here(bus: Bus) -> None:
    ledger = bus.ledger()
    assert await ledger.commit(writes("big", 1000, b"x" * 500)) == Committed(1000)
    with pytest.raises(ValueError, match="1 to 1000 writes, not 1001"):
        await ledger.commit(writes("more", 1001))
    assert await ledger.read("e1.more.0") is None


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ([], "1 to 1000 writes, not 0"),
        ([Write("a", b"", 0), Write("a", b"", 0)], "twice"),
        ([Write("a", b"", -1)], "negative"),
        ([Write("a b", b"", 0)], "not a key"),
        ([Write("a..b", b"", 0)], "not a key"),
        ([Write("a.*", b"", 0)], "not a key"),
        ([Write("", b"", 0)], "not a key"),
        ([Write("k" * 3001, b"", 0)], "not a key"),
        ([Write("a", b"x" * (1 << 20), 0)], "larger than"),
    ],
)
async def test_what_must_not_be_sent_is_an_error(bus: Bus, bad: list[Write], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        await bus.ledger().commit(bad)


async def test_a_missing_bucket_is_a_refusal_that_says_so(connect) -> None:
    bus = await connect()
    outcome = await asyncio.wait_for(bus.ledger().commit(writes("x", 3)), 5)
    assert isinstance(outcome, Refused)
    assert "no bucket berth_ledger" in outcome.reason
    await bus.ensure()
    assert await bus.ledger().commit(writes("x", 3)) == Committed(3)
    await jetstream.call(bus._link, "STREAM.DELETE.KV_berth_ledger")
    assert isinstance(await asyncio.wait_for(bus.ledger().commit(writes("y", 3)), 5), Refused)


async def test_without_a_server_a_commit_is_unknown_at_once(bus: Bus, nats_server: NatsServer) -> None:
    nats_server.kill()
    started = time.monotonic()
    outcome = await bus.ledger().commit(writes("x", 10))
    assert isinstance(outcome, Unknown)
    with pytest.raises(Disconnected):
        await bus.ledger().read("e1.x.0")
    assert time.monotonic() - started < 5


async def test_kills_in_the_middle_of_batches_leave_no_half_batch(bus: Bus, nats_server: NatsServer, spawn) -> None:
    """Commits go on while the server is killed; each batch is there whole or not at all, and known ones are there."""
    ledger, outcomes = bus.ledger(), {}

    async def commit_for_ever() -> None:
        number = 0
        while True:
            outcomes[number] = await ledger.commit(writes(str(number), 50))
            if isinstance(outcomes[number], Unknown):
                await asyncio.sleep(0.02)
            number += 1

    def committed() -> int:
        return sum(isinstance(outcome, Committed) for outcome in outcomes.values())

    task = spawn(commit_for_ever())
    for _ in range(4):
        known = committed()
        await eventually(lambda known=known: committed() > known + 5)
        await asyncio.to_thread(nats_server.restart)
    await bus.connected.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    view = View()
    follower = bus.follow("berth_ledger", view)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 20)
    assert committed() > 20
    for number, outcome in outcomes.items():
        there = sum(f"e1.{number}.{index}" in view.values for index in range(50))
        assert there in ((50,) if isinstance(outcome, Committed) else (0, 50)), (number, outcome, there)
        assert not isinstance(outcome, Refused)


async def test_a_paused_server_gives_unknown_and_the_truth_can_be_read(
    bus: Bus, nats_server: NatsServer, monkeypatch
) -> None:
    monkeypatch.setattr("berth.bus.ledger.TIMEOUT_S", 0.5)
    nats_server.pause()
    try:
        outcome = await bus.ledger().commit(writes("x", 5))
    finally:
        nats_server.resume()
    assert isinstance(outcome, Unknown)

    async def landed() -> bool:
        return await bus.ledger().read("e1.x.4") is not None

    await eventually_async(landed)
    # Planned anew: the first batch did arrive, so the decisions' sequences let only one of them in.
    assert isinstance(await bus.ledger().commit(writes("x", 5)), Refused)
