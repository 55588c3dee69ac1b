"""What the verifier finds wrong with CPUs and shares of NUMA nodes."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.solver.cores import FULL, SPREAD, Planned, cpus_of, own, pinned, share, zoned, zones_of

from berth.contracts import names, subjects
from berth.testing.builders import GI, node_topology, pod


def test_a_cpu_twice_a_reserved_one_and_one_that_is_not_there_are_found(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.topology("n", node_topology(reserved=(6,)))
    plan = Planned(run, [pinned("a", 2), pinned("b", 2)])
    assert [cpus_of(claim.grants) for claim in plan.claims] == ["0-1", "2-3"]
    assert plan.with_grants(*own(1, 2)) == ["node n: cpu 1 count: 2 claimed of 1"]
    assert plan.with_grants(*own(5, 6)) == ["default/b: CPU 6 is kept for others"]
    assert plan.with_grants(*own(5, 80)) == ["default/b: CPU 80 is not there"]
    assert plan.with_grants(*own(4, 4)) != []
    assert plan.with_grants(*own(4)) == ["default/b: asks for 2 CPUs of its own, was given 1"]
    assert plan.with_grants(*own(4, 5), share(0, cpu=2000)) != []
    run.topology("n", node_topology(reserved=(0,)))
    assert run.verifier.check(plan.claims) == ["default/a: CPU 0 is kept for others"]
    run.topology("n", node_topology(cpu_manager="static"))
    assert len(run.verifier.check(plan.claims)) == 2
    run.cluster.read_inventory(subjects.named_key("topology", "n"), b"", True)
    assert run.verifier.check(plan.claims) != []


def test_a_bind_policy_that_is_not_kept_is_found(run: Any) -> None:
    plan = Planned(run, [pinned("a", 2, requiredCPUBindPolicy=FULL)])
    assert plan.with_grants(*own(1, 2)) == [
        "default/a: was given a part of the core of CPU 1 under FullPCPUs",
        "default/a: was given a part of the core of CPU 2 under FullPCPUs",
    ]
    run.delete_pod("a")
    plan = Planned(run, [pinned("b", 2, requiredCPUBindPolicy=SPREAD)])
    assert plan.with_grants(*own(2, 3)) == [
        "default/b: was given several CPUs of the core of CPU 2 under SpreadByPCPUs"
    ]


def test_a_numa_node_beyond_its_capacity_is_found(run: Any) -> None:
    run.pod(pod("there").requests(memory=100 * GI).on("n"))
    plan = Planned(run, [zoned(pod("a").requests(cpu=1000, memory=10 * GI), "SingleNUMANode")])
    (grant,) = plan.claims[0].grants
    assert zones_of([grant]) == {0: {names.CPU: 1000, names.MEMORY: 10 * GI}}
    run.pod(pod("more").requests(memory=20 * GI).on("n"))
    assert run.verifier.check(plan.claims) == [f"node n: NUMA node 0, memory: {70 * GI} claimed of {64 * GI}"]


def test_shares_that_do_not_come_to_the_request_are_found(run: Any) -> None:
    plan = Planned(run, [zoned(pinned("a", 2, memory=GI), "SingleNUMANode")])
    assert plan.with_grants(*own(0, 1), share(0, cpu=2000)) != []
    assert plan.with_grants(*own(0, 1), share(1, cpu=2000, memory=GI)) != []
    assert plan.with_grants(*own(0, 1), share(0, cpu=2000, memory=GI), share(7, memory=0)) != []
    halves = (share(0, cpu=1000, memory=GI), share(1, cpu=1000))
    assert plan.with_grants(*own(0, 8), *halves) == ["default/a: lies on NUMA nodes 0, 1 under SingleNUMANode"]


def test_pods_that_must_not_meet_are_found(run: Any) -> None:
    run.pod(pinned("wide", 2).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0,8"}').on("n"))
    run.topology("n", node_topology(zones=3))
    run.node("n", cpu=24_000)
    plan = Planned(run, [zoned(pinned("a", 2), "SingleNUMANode", "Required")])
    assert cpus_of(plan.claims[0].grants) == "16-17"
    assert plan.with_grants(*own(2, 3), share(0, cpu=2000)) == [
        "node n: default/a meets pods on NUMA node 0 that it must not meet"
    ]
