"""More than one watcher: a standby takes over, and what another one writes is fenced or put right."""

from __future__ import annotations

import asyncio
from typing import Any

from berth.contracts import buckets, state
from berth.contracts.codec import encode
from berth.testing.views import eventually


async def test_a_standby_takes_over(world: Any) -> None:
    await world.create_pod("a")
    first, task = await world.watcher("w1")
    await world.synced()
    second, _ = await world.watcher("w2")
    assert second.term is None
    assert second._check() == (True, "standby")
    await eventually(lambda: first.standby.active)
    assert not second.standby.active
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.create_pod("b")
    await eventually(lambda: second.standby.active)
    await eventually(lambda: world.cluster.pods == {"a", "b"})
    last = await world.create_pod("c")
    await eventually(lambda: world.cluster.complete["pods"].version >= last)
    assert not world.cluster.went_back


async def test_two_that_both_believe_to_be_active_do_no_harm(world: Any, monkeypatch: Any) -> None:
    """The lease is broken on purpose: every write is still fenced, and the end is right."""
    for index in range(20):
        await world.create_pod(f"p{index}")
    for instance in ("w1", "w2"):
        shell, _ = await world.watcher(instance)
        monkeypatch.setattr(type(shell.standby._lease), "active", property(lambda self: True), raising=False)
    await eventually(lambda: all(each.term is not None and each._check()[0] for each in world.shells))
    for index in range(20, 60):
        await world.create_pod(f"p{index}")
        if index % 2:
            await world.delete_pod(f"p{index - 20}")
    expected = {f"p{index}" for index in range(60)} - {f"p{index - 20}" for index in range(20, 60) if index % 2}
    await eventually(lambda: world.cluster.pods == expected, deadline_s=40)
    assert not world.cluster.went_back


async def test_what_a_woken_predecessor_left_behind_is_put_right(world: Any) -> None:
    """Somebody else writes a pod that does not exist, and an older state of one that does."""
    version = await world.create_pod("a")
    await world.watcher()
    await world.synced()
    await eventually(lambda: world.cluster.pod("a"))
    other = (await world.connect("other")).owned(buckets.STATE)
    await other.ready()
    ghost = state.Pod(namespace="default", name="ghost", uid="g", version=version - 1)
    other.put("pod.default.ghost", encode(ghost))
    await other.drain()
    await eventually(lambda: "pod.default.ghost" in world.cluster.versions)
    await eventually(lambda: world.cluster.pods == {"a"})
    old = state.Pod(namespace="default", name="a", uid="old", version=version - 1)
    other.put("pod.default.a", encode(old))
    await other.drain()
    await eventually(lambda: world.cluster.pod("a").version == version)
    assert world.cluster.pod("a").uid != "old"


async def test_a_marker_written_by_somebody_else_leads_to_a_list(world: Any) -> None:
    await world.create_pod("a")
    await world.watcher()
    await world.synced()
    other = (await world.connect("other")).owned(buckets.STATE)
    await other.ready()
    other.put("synced.pods", encode(state.Synced(kind="pods", version=1, complete=False)))
    await other.drain()
    count = len(world.complete_markers("pods"))
    await eventually(lambda: len(world.complete_markers("pods")) > count)
