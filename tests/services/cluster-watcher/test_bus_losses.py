"""The bus is killed, loses a tail or a whole bucket: in the end state shows the cluster again."""

from __future__ import annotations

from typing import Any

from berth.cluster_watcher import batch_writer
from berth.cluster_watcher import shell as watcher
from berth.contracts import buckets
from berth.testing.views import eventually


async def test_the_bus_is_killed_and_comes_back(world: Any) -> None:
    for index in range(50):
        await world.create_pod(f"p{index}")
    await world.watcher()
    await world.synced()
    await eventually(lambda: len(world.cluster.pods) == 50)
    world.nats.kill()
    for index in range(25):
        await world.delete_pod(f"p{index}")
    for index in range(50, 60):
        await world.create_pod(f"p{index}")
    world.nats.start()
    last = await world.create_pod("last")
    expected = {f"p{index}" for index in range(25, 60)} | {"last"}
    await eventually(lambda: world.cluster.pods == expected, deadline_s=40)
    await eventually(lambda: world.cluster.complete["pods"].version >= last, deadline_s=40)
    assert not world.cluster.went_back


async def test_the_bus_loses_the_tail_of_state(world: Any) -> None:
    await world.create_pod("a")
    shell, _ = await world.watcher()
    await world.synced()
    await eventually(lambda: world.cluster.pod("a"))
    world.nats.stop()
    saved = world.nats.save_store()
    world.nats.start()
    for index in range(20):
        await world.create_pod(f"lost{index}")
    await world.delete_pod("a")
    await eventually(lambda: len(world.cluster.pods) == 20, deadline_s=40)
    world.nats.kill()
    world.nats.restore_store(saved)
    for index in range(60):
        await world.create_pod(f"new{index}")
    world.nats.start()
    expected = {f"lost{index}" for index in range(20)} | {f"new{index}" for index in range(60)}
    await eventually(lambda: world.cluster.resets, deadline_s=40)
    await eventually(lambda: world.cluster.pods == expected, deadline_s=40)
    await eventually(lambda: shell.term is not None and shell._check() == (True, "synced"), deadline_s=40)
    assert not world.cluster.went_back


async def test_state_is_deleted_and_made_again(world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(watcher, "ENSURE_S", 0.5)
    for index in range(10):
        await world.create_pod(f"p{index}")
    shell, _ = await world.watcher()
    await world.synced()
    await eventually(lambda: len(world.cluster.pods) == 10)
    await world.bus._link.request(f"$JS.API.STREAM.DELETE.KV_{buckets.STATE}", b"", timeout_s=5)
    await eventually(lambda: world.cluster.resets, deadline_s=40)
    last = await world.create_pod("after")
    await eventually(lambda: len(world.cluster.pods) == 11, deadline_s=40)
    await eventually(lambda: world.cluster.complete["pods"].version >= last, deadline_s=40)
    assert shell._check() == (True, "synced")


async def test_a_deleted_state_is_noticed_at_the_next_write(world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch_writer, "STUCK_S", 0.5)
    await world.create_pod("before")
    await world.watcher()
    await world.synced()
    await world.bus._link.request(f"$JS.API.STREAM.DELETE.KV_{buckets.STATE}", b"", timeout_s=5)
    last = await world.create_pod("after")
    await eventually(lambda: world.cluster.resets, deadline_s=40)
    await eventually(lambda: world.cluster.complete["pods"].version >= last, deadline_s=40)
    assert world.cluster.pods == {"before", "after"}


async def test_the_bucket_of_leases_is_deleted(world: Any) -> None:
    await world.create_pod("before")
    shell, _ = await world.watcher()
    await world.synced()
    await world.bus._link.request(f"$JS.API.STREAM.DELETE.KV_{buckets.LEASE}", b"", timeout_s=5)
    await eventually(lambda: not shell.standby.active, deadline_s=20)
    await eventually(lambda: shell.standby.active, deadline_s=20)
    await world.create_pod("after")
    await eventually(lambda: world.cluster.pods == {"before", "after"}, deadline_s=20)
