"""The whole writer, between a real nats-server and the simulated API."""

from __future__ import annotations

import asyncio

import msgspec
from tests.services.worlds.writer.objects import pod_path

from berth.bus import jetstream
from berth.contracts import buckets, names
from berth.simcluster import Fault
from berth.testing.views import eventually


async def test_pods_are_bound_and_told_of_once(world):
    await world.solver()
    for i in range(12):
        world.pod(f"p{i}", gpus=i % 2)
    await world.writer()
    await world.all_bound()
    assert world.epoch == 1
    await eventually(lambda: len(world.reported) >= 12, what="events")
    assert sorted(each.name for each in world.reported) == sorted(world.pods)
    for name, pod in world.pods.items():
        notes = pod["metadata"]["annotations"]
        assert [(pod["spec"]["nodeName"], notes[names.ANNOTATION_PLAN])] == world.bound[name]


async def test_every_decision_ends_although_the_api_fails(world):
    """429, 500, connections dropped before and after the effect: unknown is never taken for failed."""
    world.sim.faults.set(
        (
            Fault(kind="error", status=429, retry_after_s=0, share=0.1, verbs=("bind", "patch")),
            Fault(kind="error", status=500, share=0.1, verbs=("bind", "get", "patch")),
            Fault(kind="drop-before", share=0.1, verbs=("bind", "patch")),
            Fault(kind="drop-after", share=0.15, verbs=("bind", "patch")),
        ),
        seed=7,
    )
    await world.solver(cpu=64, gpus=20)
    await world.writer()
    await world.begun()
    for i in range(40):
        world.pod(f"p{i}", gpus=i % 2)
    await world.all_bound()
    await eventually(lambda: len(world.reported) >= 40, what="events")
    assert len({each.name for each in world.reported}) == len(world.reported) == 40
    assert all(names.ANNOTATION_ATTEMPT not in pod["metadata"]["annotations"] for pod in world.pods.values())


async def test_another_writer_goes_on_where_one_was_killed(world):
    world.sim.faults.set((Fault(kind="delay", delay_s=0.02, verbs=("bind",)),))
    await world.solver(cpu=64, gpus=20)
    for i in range(60):
        world.pod(f"p{i}", gpus=i % 2)
    first = await world.writer("first", bind_connections=4)
    await eventually(lambda: len(world.bound) >= 10, what="a part is bound")
    await world.kill(first)
    assert not world.is_bound(*world.pods)
    await world.writer("second")
    await world.all_bound()
    assert world.epoch == 1, "nothing was lost"
    assert all(len(binds) == 1 for binds in world.bound.values())


async def test_capacity_comes_back_when_its_holder_is_gone(world):
    await world.solver(nodes=1, cpu=64, gpus=2)
    await world.writer()
    for i in range(6):
        world.pod(f"p{i}", gpus=1)
    for _ in range(2):
        await eventually(lambda: len(world.bound) % 2 == 0 and sum(map(bool, world.nodes_of(*world.pods))) == 2)
        for name in [name for name in world.pods if world.is_bound(name)]:
            world.delete(name)
    await eventually(lambda: len(world.bound) == 6, what="all had their turn")


async def test_a_ledger_that_is_gone_is_made_anew(world):
    solver = await world.solver(cpu=64, gpus=20)
    await world.writer()
    for i in range(8):
        world.pod(f"p{i}", gpus=1)
    await world.all_bound()
    solver.stopped = True
    before = {name: world.bound[name] for name in world.pods}
    await jetstream.call(world.bus._link, "STREAM.DELETE.KV_berth_ledger")
    world.pod("late", gpus=1)
    solver.stopped = False
    await eventually(lambda: world.epoch == 2, what="a new epoch")
    await world.all_bound()
    assert all(world.bound[name] == binds for name, binds in before.items())


async def test_a_lost_tail_is_noticed_through_the_lease(world):
    solver = await world.solver(cpu=64, gpus=20)
    first = await world.writer("first")
    world.pod("early", gpus=1)
    await world.all_bound()
    world.nats.stop()
    saved = world.nats.save_store()
    world.nats.start()
    await world.bus.connected.wait()
    world.pod("lost", gpus=1)
    await eventually(lambda: "lost" in world.bound, what="bound after the copy was made")
    await world.kill(first)
    solver.stopped = True
    world.nats.kill()
    world.nats.restore_store(saved)
    world.nats.start()
    await eventually(lambda: world.mirror.relists, what="STATE is written again")
    solver.stopped = False
    world.pod("next", gpus=1)
    await world.writer("second")
    await eventually(lambda: world.epoch == 2, what="a new epoch")
    await world.all_bound()
    assert len(world.bound["lost"]) == 1


async def test_a_paused_writer_begins_nothing(world):
    """Its Lease is taken while it does not look: it has to notice at its next wave."""
    solver = await world.solver(cpu=64, gpus=20)
    first = await world.writer("first")
    world.pod("one")
    await world.all_bound()
    world.free_lease("stranger")
    for i in range(5):
        world.pod(f"p{i}")
    await eventually(lambda: len(solver.plans) > 1, what="decided")
    await asyncio.sleep(1.0)
    assert not any(world.nodes_of(*(f"p{i}" for i in range(5))))
    world.free_lease()
    await world.all_bound()
    assert first.context.supervisor.failure is None
    assert world.epoch == 1


async def test_two_writers(world):
    await world.solver(cpu=64, gpus=20)
    await world.writer("one")
    await world.writer("two")
    for i in range(30):
        world.pod(f"p{i}", gpus=i % 2)
    await world.all_bound()
    assert world.epoch == 1
    await eventually(lambda: len(world.reported) >= 30, what="events")
    assert len({each.name for each in world.reported}) == len(world.reported) == 30


async def test_another_scheduler_is_faster(world):
    await world.solver(nodes=2, cpu=64, gpus=20)
    world.sim.faults.set((Fault(kind="delay", delay_s=0.3, verbs=("bind",)),))
    await world.writer()
    world.pod("ours")
    world.pod("theirs")
    await world.begun()
    await eventually(lambda: world.lease()["metadata"]["annotations"].get(names.ANNOTATION_PLAN), what="a wave")
    world.bind_elsewhere("theirs", "n1")
    await world.all_bound()
    assert world.bound["theirs"] == [("n1", "")]
    await eventually(lambda: [each.name for each in world.reported] == ["ours"], what="only ours is published")


async def test_the_end_of_a_placement_is_an_event_once(world):
    """Deleted, finished, and deleted while no writer runs; one that was never bound has no end."""
    ends = []

    async def hear(message):
        ends.append(msgspec.json.decode(message.data))

    world.spawn(
        world.bus.consume("test-ends", hear, subjects="berth.v1.evt.placement.ended.>", stream=buckets.EVENTS).run()
    )
    await world.solver()
    first = await world.writer("first")
    for name in ("deleted", "done", "unseen"):
        world.pod(name)
    world.pod("never", cpu="999")
    await eventually(lambda: world.is_bound("deleted", "done", "unseen"), what="three are bound")
    await eventually(lambda: len(world.reported) == 3, what="events")
    uids = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    world.sim.store.patch(pod_path("done")._replace(subresource="status"), {"status": {"phase": "Succeeded"}})
    world.delete("deleted")
    world.delete("never")
    await eventually(lambda: len(ends) == 2, what="two ends")
    await world.stop(first)
    world.delete("unseen")
    world.delete("done")
    await world.writer("second")
    await eventually(lambda: len(ends) == 3, what="the end that nobody saw")
    world.pod("last")
    await eventually(lambda: world.is_bound("last"), what="the writer works")
    assert [(each["name"], each["uid"], each["reason"]) for each in sorted(ends, key=lambda each: each["name"])] == [
        ("deleted", uids["deleted"], "deleted"),
        ("done", uids["done"], "succeeded"),
        ("unseen", uids["unseen"], "deleted"),
    ]
