"""Shares of NUMA nodes, by the policies of pods and nodes, and on nodes with an amplified cpu."""

from __future__ import annotations

import json
from typing import Any

from tests.services.worlds.solver.cores import cpus_of, held, pinned, told, zoned, zones_of

from berth.contracts import names
from berth.testing.builders import GI, node_topology, pod


def test_a_single_numa_node_holds_cpus_and_memory(run: Any) -> None:
    run.pods(
        [zoned(pinned("a", 4, memory=8 * GI), "SingleNUMANode"), zoned(pinned("b", 6, memory=GI), "SingleNUMANode")]
    )
    run.round()
    assert (cpus_of(held(run, "a")), zones_of(held(run, "a"))) == ("0-3", {0: {names.CPU: 4000, names.MEMORY: 8 * GI}})
    assert (cpus_of(held(run, "b")), zones_of(held(run, "b"))) == ("8-13", {1: {names.CPU: 6000, names.MEMORY: GI}})
    run.pod(zoned(pinned("c", 5), "SingleNUMANode"))
    assert told(run) == (
        "0/1 nodes are available: 1 Unaligned NUMA Hint cause cpu prefer [11] among [11]. "
        "To repair: free 1 exclusive CPU of NUMA node 0 on node n."
    )
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    assert json.loads(decision.annotations[names.ANNOTATION_RESOURCE_STATUS]) == {
        "cpuset": "0-3",
        "numaNodeResources": [{"node": 0, "resources": {"cpu": "4", "memory": "8Gi"}}],
    }


def test_who_was_given_no_numa_node_counts_in_proportion(run: Any) -> None:
    run.pod(pod("big").requests(cpu=1000, memory=100 * GI).on("n"))
    run.pod(zoned(pod("a").requests(cpu=1000, memory=20 * GI), "SingleNUMANode"))
    assert told(run) == (
        "0/1 nodes are available: 1 Unaligned NUMA Hint cause "
        "cpu prefer [11] among [11],memory prefer [11] among [11]. "
        "To repair: free 6Gi memory of NUMA node 0 on node n."
    )
    run.delete_pod("a")
    run.pod(zoned(pod("b").requests(cpu=1000, memory=20 * GI), "Restricted"))
    run.round()
    assert zones_of(held(run, "b")) == {zone: {names.CPU: 500, names.MEMORY: 10 * GI} for zone in range(2)}


def test_a_nodes_label_and_kubelets_policy_hold_for_every_pod(solving: type[Any]) -> None:
    for fields, labels in (({"policy": "SingleNUMANode"}, {}), ({}, {names.LABEL_NUMA_POLICY: "SingleNUMANode"})):
        run = solving()
        run.node("n", labels=labels)
        run.topology("n", node_topology(zones=2, **fields))
        run.pods(
            [
                pod("plain").requests(cpu=9000),
                pod("small").requests(cpu=8000),
                zoned(pod("r").requests(cpu=1), "Restricted"),
            ]
        )
        solution = run.round()
        assert run.nodes_of(solution) == {"small": "n"}
        assert zones_of(held(run, "small")) == {0: {names.CPU: 8000}}
        assert sorted(reason.message for refusal in solution.refusals for reason in refusal.reasons) == [
            "Unaligned NUMA Hint cause cpu prefer [11] among [11]",
            "node(s) NUMA Topology policy not match",
        ]


def test_pods_across_numa_nodes_and_within_one_do_not_meet_where_that_is_required(run: Any) -> None:
    run.pod(zoned(pinned("wide", 10), "Restricted"))
    run.round()
    assert sorted(zones_of(held(run, "wide"))) == [0, 1]
    run.pod(zoned(pinned("alone", 2), "SingleNUMANode", "Required"))
    assert "node(s) whose NUMA nodes other pods hold, required singleNUMANodeExclusive" in told(run)
    run.delete_pod("alone")
    run.pod(zoned(pinned("any", 2), "SingleNUMANode"))
    assert run.nodes_of(run.round()) == {"any": "n"}


def test_a_policy_without_numa_nodes_is_refused(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.pod(zoned(pod("a").requests(cpu=1000), "BestEffort"))
    assert "node(s) missing NUMA resources" in told(run)


def test_an_amplified_node_counts_own_cpus_times_the_ratio(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=24_000, annotations={names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.5}'})
    run.topology("n", node_topology(zones=2))
    run.pod(zoned(pinned("a", 4), "SingleNUMANode"))
    run.round()
    wishes = {"b": 6000, "c": 6001, "d": 6000}
    run.pods([zoned(pod(name).requests(cpu=cpu), "SingleNUMANode") for name, cpu in wishes.items()])
    assert run.nodes_of(run.round()) == {"b": "n", "d": "n"}
    assert zones_of(held(run, "a")) == {0: {names.CPU: 4000}}
    assert [zones_of(held(run, name)) for name in "bd"] == [{1: {names.CPU: 6000}}, {0: {names.CPU: 6000}}]
