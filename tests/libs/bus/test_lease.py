from __future__ import annotations

import asyncio
from typing import Any

import pytest

from berth.bus import Bus, TimedOut, jetstream
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually, eventually_async

LEASE = "berth_lease"


async def end(task: asyncio.Task) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_one_of_several_is_active_and_gives_it_back(bus: Bus, connect, spawn) -> None:
    changes: list[bool] = []
    first = bus.lease("watcher", "a", ttl_s=3, on_change=changes.append)
    task = spawn(first.run())
    await eventually(lambda: first.active)
    others = [(await connect(f"b{number}")).lease("watcher", f"b{number}", ttl_s=3) for number in range(3)]
    for other in others:
        spawn(other.run())
    await asyncio.sleep(1.5)
    assert first.active
    assert not any(other.active for other in others)
    await end(task)
    assert changes == [True, False]
    await eventually(lambda: any(other.active for other in others), deadline_s=2.5)
    assert sum(other.active for other in others) == 1


async def test_it_is_kept_for_longer_than_its_time_to_live(bus: Bus, spawn) -> None:
    lease = bus.lease("watcher", "a", ttl_s=1)
    spawn(lease.run())
    await eventually(lambda: lease.active)
    for _ in range(50):
        await asyncio.sleep(0.05)
        assert lease.active


async def test_a_holder_that_vanishes_is_replaced_after_the_time_to_live(bus: Bus, connect, spawn) -> None:
    gone = await connect("gone")
    lease = gone.lease("watcher", "a", ttl_s=1)
    task = asyncio.create_task(lease.run())
    await eventually(lambda: lease.active)
    await gone._link.close()  # no goodbye: the connection is simply gone
    successor = bus.lease("watcher", "b", ttl_s=1)
    spawn(successor.run())
    await eventually(lambda: successor.active, deadline_s=5)
    assert not lease.active
    await end(task)


async def test_two_are_never_active_at_once_while_the_bus_comes_and_goes(bus: Bus, connect, nats_server, spawn) -> None:
    leases = [bus.lease("watcher", "a", ttl_s=1), (await connect("b")).lease("watcher", "b", ttl_s=1)]
    for lease in leases:
        spawn(lease.run())
    loop = asyncio.get_running_loop()
    for number in range(3):
        await eventually(lambda: any(lease.active for lease in leases))
        if number:
            nats_server.kill()
        until = loop.time() + 1.5
        while loop.time() < until:
            assert sum(lease.active for lease in leases) <= 1
            await asyncio.sleep(0.005)
        if number:
            assert not any(lease.active for lease in leases)
            nats_server.start()


async def test_a_short_outage_costs_no_lease(bus: Bus, nats_server: NatsServer, spawn) -> None:
    changes: list[bool] = []
    lease = bus.lease("watcher", "a", ttl_s=6, on_change=changes.append)
    spawn(lease.run())
    await eventually(lambda: lease.active)
    nats_server.restart()
    await eventually(bus.connected.is_set)
    sequence = lease._sequence
    await eventually(lambda: lease._sequence > sequence)
    assert changes == [True]


OTHER = b'{"holder":"z","incarnation":"other"}'


async def test_a_lease_taken_by_force_is_lost_at_the_next_renewal(bus: Bus, spawn) -> None:
    lease = bus.lease("watcher", "a", ttl_s=1)
    spawn(lease.run())
    await eventually(lambda: lease.active)
    await bus._link.request(f"$KV.{LEASE}.watcher", OTHER, timeout_s=5, headers={"Nats-TTL": "3s"})
    await eventually(lambda: not lease.active, deadline_s=2)
    await asyncio.sleep(1.2)
    assert not lease.active
    await bus._link.request(f"$KV.{LEASE}.watcher", b"", timeout_s=5, headers={"KV-Operation": "DEL"})
    await eventually(lambda: lease.active, deadline_s=5)


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"", {"Nats-TTL": "1h"}),
        (b"garbage", {"Nats-TTL": "1h"}),
        (b'{"holder": "z"}', {"Nats-TTL": "1h"}),
        (b'{"type":"io.nats.jetstream.api.v1.stream_info_response"}', {}),
        (OTHER, {}),
        (OTHER, {"Nats-TTL": "never"}),
        (OTHER, {"Nats-TTL": "1h"}),
    ],
    ids=["empty", "garbage", "half", "answer", "without time to live", "never", "overdue"],
)
async def test_what_no_holder_keeps_alive_is_taken_over(
    value: bytes, headers: dict[str, str], bus: Bus, connect, spawn
) -> None:
    """Written over a lease that is held, and over one that is free: neither is lost for good."""
    held = bus.lease("watcher", "a", ttl_s=1)
    spawn(held.run())
    await eventually(lambda: held.active)
    for name in ("watcher", "free"):
        stored = await bus._link.request(f"$KV.{LEASE}.{name}", value, timeout_s=5, headers=headers)
        assert b"error" not in stored.data
    late = (await connect("late")).lease("free", "b", ttl_s=1)
    spawn(late.run())
    await eventually(lambda: held.active and late.active, deadline_s=12)
    sequence = held._sequence
    await eventually(lambda: held._sequence > sequence and held.active)


async def test_a_lost_bucket_is_survived(bus: Bus, spawn) -> None:
    lease = bus.lease("watcher", "a", ttl_s=1)
    spawn(lease.run())
    await eventually(lambda: lease.active)
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{LEASE}")
    await eventually(lambda: not lease.active, deadline_s=5)
    await bus.ensure()
    await eventually(lambda: lease.active, deadline_s=5)


async def test_a_renewal_whose_answer_was_lost_is_found_out(bus: Bus, spawn) -> None:
    """The write arrived, the holder does not know its sequence: the key says that it is the holder's own."""
    changes: list[bool] = []
    lease = bus.lease("watcher", "a", ttl_s=2, on_change=changes.append)
    spawn(lease.run())
    await eventually(lambda: lease.active)
    await bus._link.request(f"$KV.{LEASE}.watcher", lease._value, timeout_s=5, headers={"Nats-TTL": "2s"})
    behind = lease._sequence
    await eventually(lambda: lease._sequence > behind + 1)
    assert lease.active


async def test_a_holder_whose_acknowledgement_was_lost_stays_active(bus: Bus, spawn, monkeypatch) -> None:
    changes: list[bool] = []
    lease = bus.lease("watcher", "a", ttl_s=3, on_change=changes.append)
    spawn(lease.run())
    await eventually(lambda: lease.active)
    request, lost = bus._link.request, []

    async def forgetful(subject: str, payload: bytes = b"", **more: Any) -> Any:
        answer = await request(subject, payload, **more)
        if subject == f"$KV.{LEASE}.watcher" and not lost:
            lost.append(lease._sequence)
            raise TimedOut("lost")
        return answer

    monkeypatch.setattr(bus._link, "request", forgetful)
    await eventually(lambda: lost and lease._sequence > lost[0] + 1)
    assert changes == [True]


async def test_followers_see_holders_come_and_leave(bus: Bus, spawn) -> None:
    view = View()
    spawn(bus.follow(LEASE, view).run())
    task = asyncio.create_task(bus.lease("solver.a", "a", ttl_s=3).run())
    await eventually(lambda: set(view.values) == {"solver.a"})
    await end(task)
    await eventually(lambda: not view.values)


async def test_a_name_is_free_again_after_its_marker(bus: Bus) -> None:
    for holder in "ab":
        lease = bus.lease("watcher", holder, ttl_s=2)
        task = asyncio.create_task(lease.run())
        await eventually(lambda lease=lease: lease.active)
        await end(task)

    async def free() -> bool:
        return await jetstream.newest(bus._link, LEASE, "watcher") is None

    await eventually_async(free, deadline_s=5)


@pytest.mark.parametrize(("name", "ttl_s"), [("a b", 6), ("", 6), ("a", 0)])
async def test_senseless_leases_are_errors(bus: Bus, name: str, ttl_s: int) -> None:
    with pytest.raises(ValueError, match=r"not a key|less than 1"):
        bus.lease(name, "a", ttl_s=ttl_s)
