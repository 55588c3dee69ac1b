"""Two real solvers and a writer on one bus: every pod is decided once, nothing that overlaps is committed."""

from __future__ import annotations

from collections import Counter

from berth.bus import jetstream
from berth.contracts import names
from berth.testing.views import eventually


def gang(world, name, size, cpu="1"):
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": size},
    }
    world.sim.load([group])
    notes = {names.ANNOTATION_GANG_NAME: name, names.ANNOTATION_GANG_MIN: str(size)}
    for index in range(size):
        world.pod(f"{name}-{index}", cpu=cpu, annotations=notes)


async def test_every_pod_is_decided_once_and_bound_once(world, solvers):
    world.nodes(4, cpu=16)
    await world.writer()
    await world.begun()
    for instance in ("host.one", "host.two"):
        await solvers.start(instance)
    for index in range(50):
        world.pod(f"p{index}")
    for index in range(3):
        gang(world, f"g{index}", 4)
    await world.all_bound()
    counts = Counter((each.uid, each.attempt) for each in solvers.decisions(1))
    assert len(counts) == len(world.pods) == 62
    assert set(counts.values()) == {1}
    assert all(len(binds) == 1 for binds in world.bound.values())


async def test_a_full_cluster_is_filled_to_the_last_core_and_not_beyond(world, solvers):
    world.nodes(3, cpu=4)
    await world.writer()
    for instance in ("one", "two"):
        await solvers.start(instance)
    for index in range(20):
        world.pod(f"p{index}")
    await eventually(lambda: len(world.bound) == 12, what="twelve cores are given away")
    world.check()
    for name in list(world.bound)[:4]:
        world.delete(name)
    await eventually(lambda: len(world.bound) == 16, what="capacity that came back is used")


async def test_the_other_solver_takes_over_the_share_of_one_that_crashed(world, solvers):
    world.nodes(4, cpu=32)
    await world.writer()
    await world.begun()
    for instance in ("one", "two"):
        await solvers.start(instance)
    world.pod("first")
    await world.all_bound()
    await solvers.crash("one")
    for index in range(20):
        world.pod(f"p{index}")
    await world.all_bound()
    assert set(Counter((each.uid, each.attempt) for each in solvers.decisions(1)).values()) == {1}


async def test_solvers_go_on_in_a_new_ledger(world, solvers):
    """The ledger's sequences start anew; whoever waited for an old one would wait for ever."""
    world.nodes(2, cpu=32)
    await world.writer()
    await solvers.start("one")
    for index in range(10):
        world.pod(f"p{index}")
    await world.all_bound()
    await jetstream.call(world.bus._link, "STREAM.DELETE.KV_berth_ledger")
    world.pod("late")
    await eventually(lambda: world.epoch == 2, what="a new epoch")
    await world.all_bound()
