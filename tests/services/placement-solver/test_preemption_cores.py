"""Pods that leave CPUs, NUMA nodes and devices for a pod of higher priority that wants them to itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.grants import CPU
from berth.contracts.ledger import Decision
from berth.rules.cpus.cpuset import format_cpuset
from berth.testing.builders import GI, PodBuilder, gpu_grant, gpu_slots, node_topology, pod, with_places

SINGLE = {"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """Two NUMA nodes of four CPUs and 16Gi each, with a GPU on each."""
    made = solving()
    made.node("n", cpu=64_000)
    made.topology("n", node_topology(zones=2, cores=2, memory=16 * GI))
    made.devices("n", with_places(gpu_slots(3)))
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def sized(name: str, priority: int, *, cpus: int = 0, memory: int = 0) -> PodBuilder:
    return pod(name).requests(cpu=1000 * cpus, memory=memory).template(priority=priority)


def pinned(name: str, priority: int, cpus: int, cpuset: str = "") -> PodBuilder:
    builder = sized(name, priority, cpus=cpus).label(names.LABEL_QOS, "LSR")
    builder.label(names.LABEL_PRIORITY_CLASS, "koord-prod")
    if not cpuset:
        return builder
    return builder.annotation(names.ANNOTATION_RESOURCE_STATUS, json.dumps({"cpuset": cpuset})).on("n")


def single(builder: PodBuilder) -> PodBuilder:
    return builder.annotation(names.ANNOTATION_NUMA_SPEC, json.dumps(SINGLE))


def held(run: Any, name: str) -> Decision:
    found: Decision = run.cluster.book.ledger.decisions["default", name].decision
    return found


def victims(decision: Decision) -> list[str]:
    return sorted(each.name for each in decision.victims)


def cpus(decision: Decision) -> str:
    return format_cpuset(int(grant.id) for grant in decision.allocation.grants if grant.kind == CPU)


async def leave(run: Any, bench: SolverBench, *gone: str) -> None:
    for name in gone:
        run.delete_pod(name)
    bench.clock.time += 20
    await bench.until_idle()


async def test_the_cpus_of_a_victim_are_its_beneficiarys(run: Any, bench: SolverBench) -> None:
    for builder in (pinned("low", 1, 4, "2-5"), pinned("equal", 9, 2, "0-1"), pinned("lower", 0, 1, "6")):
        run.pod(builder)
    run.pod(pinned("high", 9, 4))
    await bench.until_idle()
    nomination = held(run, "high")
    assert (nomination.nominates, victims(nomination), cpus(nomination)) == (True, ["low"], "2-5")
    await leave(run, bench, "low")
    assert bench.placed() == {"high": "n"}
    assert cpus(held(run, "high")) == "2-5"
    assert held(run, "high").annotations[names.ANNOTATION_RESOURCE_STATUS] == '{"cpuset":"2-5"}'


async def test_who_holds_what_a_numa_node_lacks_leaves_and_others_stay(run: Any, bench: SolverBench) -> None:
    shares = {"numaNodeResources": [{"node": 1, "resources": {"memory": "12Gi"}}]}
    low = single(sized("low", 0, memory=12 * GI)).annotation(names.ANNOTATION_RESOURCE_STATUS, json.dumps(shares))
    run.pod(low.on("n"))
    run.pod(pinned("there", 0, 2, "0-1"))
    run.pod(pinned("equal", 9, 1, "2"))
    run.pod(single(pinned("high", 9, 4).requests(memory=8 * GI)))
    await bench.until_idle()
    assert (victims(held(run, "high")), cpus(held(run, "high"))) == (["low"], "4-7")
    await leave(run, bench, "low")
    assert bench.placed() == {"high": "n"}


async def test_the_card_of_the_numa_node_that_has_cpus_is_freed(run: Any, bench: SolverBench) -> None:
    run.pod(pod("other").gpus(1).template(priority=0).on("n", [gpu_grant(2)]))
    run.pod(pod("here").gpus(1).template(priority=0).on("n", [gpu_grant(0)]))
    run.pod(pod("near").gpus(1).template(priority=0).on("n", [gpu_grant(1)]))
    run.pod(pinned("equal", 9, 3, "4-6"))
    run.pod(single(pinned("high", 9, 3).gpus(2)))
    await bench.until_idle()
    assert (victims(held(run, "high")), cpus(held(run, "high"))) == (["here", "near"], "0-2")
    await leave(run, bench, "here", "near")
    assert bench.placed() == {"high": "n"}
    assert sorted(grant.id for grant in held(run, "high").allocation.grants if grant.kind == "gpu") == ["0", "1"]


async def test_a_node_without_enough_cpus_is_left_by_nobody(run: Any, bench: SolverBench) -> None:
    run.pod(pinned("low", 0, 4, "0-3"))
    run.pod(pinned("high", 9, 10))
    await bench.until_idle()
    assert bench.placed() == {}
    assert ("default", "high") not in run.cluster.book.ledger.decisions


async def test_who_holds_cpus_that_nobody_knows_leaves_for_who_wants_some(run: Any, bench: SolverBench) -> None:
    run.pod(pinned("torn", 0, 2, "0-1").annotation(names.ANNOTATION_RESOURCE_STATUS, "{"))
    run.pod(pinned("high", 9, 2))
    await bench.until_idle()
    assert victims(held(run, "high")) == ["torn"]
    await leave(run, bench, "torn")
    assert cpus(held(run, "high")) == "0-1"


async def test_cpu_of_an_amplified_node_is_freed_times_the_ratio(run: Any, bench: SolverBench) -> None:
    run.node("n", cpu=12_000, annotations={names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.5}'})
    run.pod(pinned("low", 0, 4, "0-3"))
    run.pod(sized("there", 9, cpus=6).on("n"))
    run.pod(sized("high", 9, cpus=4))
    await bench.until_idle()
    assert victims(held(run, "high")) == ["low"]
    await leave(run, bench, "low")
    assert bench.placed() == {"high": "n"}
