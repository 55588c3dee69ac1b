"""The watcher lists again: after an expired watch, another API server or a restart, and writes only what differs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from berth.cluster_watcher import term as watcher
from berth.cluster_watcher.kinds import scopes
from berth.cluster_watcher.source import OLDER, Source
from berth.kube import Outages, Reflector
from berth.runtime.clock import SystemClock
from berth.simcluster import Fault
from berth.testing.views import eventually


async def test_all_watches_share_the_end_of_an_outage(world: Any, monkeypatch: Any) -> None:
    shared: list[object] = []

    class Noted(Reflector[Any]):
        def __init__(self, *args: Any, outages: Outages | None = None, **more: Any) -> None:
            shared.append(outages)
            super().__init__(*args, outages=outages, **more)

    monkeypatch.setattr(watcher, "Reflector", Noted)
    shell, _ = await world.watcher()
    await eventually(lambda: shell.term is not None and len(shared) >= len(shell.term.sources))
    assert isinstance(shared[0], Outages)
    assert all(each is shared[0] for each in shared)


async def test_an_expired_watch_leads_to_a_list_and_a_difference(world: Any) -> None:
    for name in ("stays", "goes"):
        await world.create_pod(name)
    await world.watcher()
    await world.synced()
    before = world.cluster.versions["pod.default.stays"]
    entries = world.cluster.entries
    # No stream while this happens, and no history to resume from afterwards.
    world.sim.faults.set((Fault(kind="error", verbs=("watch",), status=503),))
    world.sim.hub.close()
    await world.delete_pod("goes")
    await world.create_pod("comes")
    for collection in world.sim.store.state.collections.values():
        collection.compact(0)
    world.sim.faults.set(())
    await eventually(lambda: world.cluster.pods == {"stays", "comes"})
    assert world.cluster.versions["pod.default.stays"] == before
    assert world.cluster.entries < entries + 60
    assert not world.cluster.went_back


async def test_another_api_server_with_other_objects(world: Any) -> None:
    for index in range(20):
        await world.create_pod(f"p{index}")
    await world.watcher()
    await world.synced()
    await eventually(lambda: len(world.cluster.pods) == 20)
    await world.restart_api()
    listed = await world.create_pod("only")
    await eventually(lambda: world.cluster.pods == {"only"})
    await eventually(lambda: world.cluster.complete["pods"].version >= listed)
    gone = world.cluster.versions["pod.default.p0"]
    assert gone >= listed  # tombstones carry the list's version
    assert not world.cluster.went_back


async def test_a_list_that_changes_nothing_writes_nothing_but_a_marker(world: Any) -> None:
    for index in range(10):
        await world.create_pod(f"p{index}")
    _, task = await world.watcher()
    await world.synced()
    await eventually(lambda: len(world.cluster.pods) == 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    world.cluster.markers.clear()
    entries = world.cluster.entries
    reached = await world.create_pod("new") - 1
    await world.delete_pod("new")
    await world.watcher("w2")
    await eventually(lambda: world.complete_markers("pods"))
    await eventually(lambda: world.complete_markers("nodes"))
    assert all(marker.complete and marker.version > reached for marker in world.cluster.markers)
    assert world.cluster.entries - entries == len(world.cluster.markers)


async def test_a_rest_between_older_lists_ends_when_a_list_is_wanted_for_another_reason() -> None:
    source, clock = Source(scopes(())[0]), SystemClock()
    source.older = 50
    source.ask_for_list(OLDER)
    term: Any = SimpleNamespace(_context=SimpleNamespace(clock=clock, settings=SimpleNamespace(relist_pause_s=1.0)))
    resting = asyncio.create_task(watcher.Term._rest(term, source, clock.monotonic() - 2.0))
    done, _ = await asyncio.wait([resting], timeout=0.05)
    assert not done  # of half a minute
    source.ask_for_list("state lost")
    async with asyncio.timeout(10):
        await resting
