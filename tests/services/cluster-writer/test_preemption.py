"""Solvers and writers carry a preemption through: nominated, noted, marked, deleted, bound."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.writer.solvers import Solvers
from tests.services.worlds.writer.world import World

from berth.contracts import names
from berth.simcluster.store import Path
from berth.testing.views import eventually

HIGH = 100


def classes(world: World, **priorities: int) -> None:
    for name, value in priorities.items():
        world.sim.store.create(
            Path("scheduling.k8s.io", "v1", "priorityclasses"), {"metadata": {"name": name}, "value": value}
        )


def note(world: World, name: str, key: str) -> str:
    found: Any = world.pods.get(name, {"metadata": {}})["metadata"].get("annotations", {}).get(key, "")
    return str(found)


def is_leaving(world: World, name: str) -> bool:
    return "deletionTimestamp" in world.pods[name]["metadata"]


def condition(world: World, name: str, kind: str) -> dict[str, Any]:
    conditions = world.pods[name].get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


@pytest.mark.parametrize("solver_count", [1, 2])
async def test_a_preemption_from_refusal_to_bind(world: World, solvers: Solvers, solver_count: int) -> None:
    classes(world, high=HIGH)
    world.nodes(2, cpu=4)
    await world.writer()
    await world.begun()
    for number in range(solver_count):
        await solvers.start(f"s{number}", preemption=True)
    lows = ("low-0", "low-1")
    for name in lows:
        world.pod(name, cpu="4", terminationGracePeriodSeconds=30)
    await world.all_bound()
    world.pod("high", cpu="4", priorityClassName="high")
    await eventually(lambda: any(is_leaving(world, name) for name in lows), what="a victim is deleted")
    (victim,) = [name for name in lows if is_leaving(world, name)]
    (stays,) = {*lows} - {victim}
    high = world.pods["high"]
    assert high["status"]["nominatedNodeName"] == world.pods[victim]["spec"]["nodeName"]
    assert f'"plan":"{solvers.decisions(1)[-1].plan}"' in note(world, "high", names.ANNOTATION_NOMINATED)
    assert '"beneficiary":"default/high"' in note(world, victim, names.ANNOTATION_EVICTED_FOR)
    assert condition(world, victim, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert not world.is_bound("high"), "its victim is still there"
    world.delete(victim)
    await eventually(lambda: world.is_bound("high"), what="the beneficiary is bound")
    assert world.nodes_of("high") == [high["status"]["nominatedNodeName"]]
    assert not is_leaving(world, stays)
    assert note(world, stays, names.ANNOTATION_EVICTED_FOR) == ""


async def test_several_at_once_leave_only_as_many_as_have_to(world: World, solvers: Solvers) -> None:
    classes(world, high=HIGH)
    world.nodes(3, cpu=4)
    await world.writer()
    for name in ("one", "two"):
        await solvers.start(name, preemption=True)
    for number in range(12):
        world.pod(f"low-{number}", terminationGracePeriodSeconds=0)
    await world.all_bound()
    for number in range(5):
        world.pod(f"high-{number}", priorityClassName="high")
    await eventually(lambda: world.is_bound(*(f"high-{number}" for number in range(5))), what="all high pods are bound")
    made = [(d.name, d.node, d.attempt, [v.name for v in d.victims]) for d in solvers.decisions(world.epoch)]
    assert len(world.pods) == 12, f"five of twelve had to leave: {made}"


async def test_a_beneficiary_that_is_deleted_spares_whom_it_can(world: World, solvers: Solvers) -> None:
    """The writer is away while the pod is nominated; when it comes back nobody is left to be evicted for."""
    classes(world, high=HIGH)
    world.nodes(1, cpu=4)
    writer = await world.writer()
    await solvers.start("one", preemption=True)
    world.pod("low", cpu="4")
    await world.all_bound()
    await world.stop(writer)
    world.pod("high", cpu="4", priorityClassName="high")
    await eventually(lambda: any(each.nominates for each in solvers.decisions(world.epoch)), what="it is nominated")
    world.delete("high")
    await world.writer("w2")
    world.pod("later", cpu="4")
    await eventually(
        lambda: condition(world, "later", "PodScheduled").get("reason") == "Unschedulable", what="later is refused"
    )
    assert not is_leaving(world, "low")
    assert note(world, "low", names.ANNOTATION_EVICTED_FOR) == ""
