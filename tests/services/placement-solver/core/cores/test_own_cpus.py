"""CPUs of their own, from the pod's wish to its record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.services.worlds.solver.cores import FULL, SPREAD, cpus_of, held, pinned, told, zoned, zones_of

from berth.contracts import names, subjects
from berth.contracts.topology import CoreCpus, NodeTopology, ZoneCapacity
from berth.testing.builders import GI, PodBuilder, node_topology, pod
from berth.testing.vectors import cases


def test_a_pod_gets_whole_cores_and_keeps_them_for_its_life(run: Any) -> None:
    first, second = pinned("a", 4), pinned("b", 4)
    run.pods([first, second])
    run.round()
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    assert cpus_of(decision.allocation.grants) == "0-3"
    assert decision.allocation.devices == []
    assert decision.annotations[names.ANNOTATION_RESOURCE_STATUS] == '{"cpuset":"0-3"}'
    assert cpus_of(held(run, "b")) == "8-11", "the emptier zone first"
    run.bind(first)
    run.bind(second)
    run.pod(pinned("c", 8))
    run.round()
    assert cpus_of(held(run, "c")) == "4-7,12-15"
    run.delete_pod("a")
    run.cluster.now += 1000
    run.pod(pinned("d", 4))
    run.round()
    assert cpus_of(held(run, "d")) == "0-3"


def test_what_was_chosen_on_a_node_is_not_taken_for_a_choice_on_its_successor(run: Any) -> None:
    def occupied(cpuset: str, node: str) -> PodBuilder:
        status = json.dumps({"cpuset": cpuset})
        return pinned("there", 2, memory=GI).annotation(names.ANNOTATION_RESOURCE_STATUS, status).on(node)

    run.pod(occupied("4-5", "n"))
    first = pinned("a", 2)
    run.pod(first)
    run.round()
    assert cpus_of(held(run, "a")) == "8-9"
    run.bind(first)
    for name in ("a", "there"):
        run.delete_pod(name)
    for kind in ("node", "noderesourcetopology"):
        run.delete(subjects.named_key(kind, "n"))
    run.cluster.read_inventory(subjects.named_key("topology", "n"), b"", True)
    run.node("other", cpu=16_000)
    run.topology("other", node_topology(zones=2))
    assert run.cluster.nodes.rows == {"other": 0}
    run.pod(occupied("8-9", "other"))
    run.pod(pinned("b", 2))
    run.round()
    assert cpus_of(held(run, "b")) == "0-1"


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/resource_spec_writeback"))
def test_the_bind_says_by_which_policy(solving: type[Any], case: dict[str, Any]) -> None:
    given = case["given"]
    run = solving()
    run.node("n", labels={names.LABEL_CPU_BIND_POLICY: given["nodeLabel"]} if given["nodeLabel"] else {})
    run.topology("n", node_topology())
    builder = pinned("a", 2, **given["resourceSpec"])
    run.pod(builder)
    run.round()
    run.bind(builder)
    template = run.cluster.book.pods["default", "a"].template
    assert json.loads(template.annotations[names.ANNOTATION_RESOURCE_SPEC]) == case["expect"]["resourceSpec"]
    run.pod(pod("shared").requests(memory=GI))
    run.round()
    decision = run.cluster.book.ledger.decisions["default", "shared"].decision
    assert names.ANNOTATION_RESOURCE_SPEC not in decision.annotations


def test_a_pod_that_does_not_ask_gets_none_and_the_class_key_is_as_before(run: Any) -> None:
    run.pod(pod("plain").requests(cpu=1000))
    run.pod(pinned("shared", 2, qos="LS", requiredCPUBindPolicy=FULL))
    run.round()
    assert held(run, "plain") == held(run, "shared") == ()
    queries = [constraint.name for cls in run.cluster.classes for constraint, _ in cls.asked]
    assert "NodeNUMAResource" not in queries


@pytest.mark.parametrize(
    ("spec", "cpus", "expected"),
    [
        ({"preferredCPUBindPolicy": SPREAD}, 4, "0,2,4,6"),
        ({"requiredCPUBindPolicy": SPREAD}, 6, "0,2,4,6,8,10"),
        ({"preferredCPUBindPolicy": FULL}, 3, "0-2"),
        ({"requiredCPUBindPolicy": "Default"}, 2, "0-1"),
    ],
)
def test_the_bind_policy_says_which(run: Any, spec: dict[str, str], cpus: int, expected: str) -> None:
    run.pod(pinned("a", cpus, **spec))
    run.round()
    assert cpus_of(held(run, "a")) == expected


def test_reserved_cpus_are_nobodys(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.topology("n", node_topology(cores=3, reserved=(0, 3)))
    run.pod(pinned("whole", 2))
    run.round()
    assert cpus_of(held(run, "whole")) == "4-5"
    run.pod(pinned("more", 2, requiredCPUBindPolicy=FULL))
    assert told(run) == (
        "0/1 nodes are available: 1 insufficient CPUs to satisfy required cpu bind policy FullPCPUs. "
        "To repair: free 2 exclusive CPUs of whole cores on node n."
    )
    run.pod(pinned("most", 3))
    assert "1 not enough cpus available to satisfy request" in told(run)


def test_overhead_is_not_pinned(run: Any) -> None:
    run.pod(pinned("a", 2).requests(cpu=2250).template(overhead={names.CPU: 250}))
    run.round()
    assert cpus_of(held(run, "a")) == "0-1"


def test_a_batch_pod_has_no_cpus_of_its_own(run: Any) -> None:
    run.pods([pinned("a", 2).template(priority=5500), pinned("b", 2).template(priority=9500)])
    run.round()
    assert (cpus_of(held(run, "a")), cpus_of(held(run, "b"))) == ("", "0-1")


def test_uneven_cores_and_sparse_zones_work(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    cores = [CoreCpus(zone=4, cpus=[0, 1]), CoreCpus(zone=4, cpus=[2]), CoreCpus(zone=900, socket=1, cpus=[5, 6])]
    zones = [ZoneCapacity(zone=4, amounts={names.CPU: 3000}), ZoneCapacity(zone=900, amounts={names.CPU: 2000})]
    run.topology("n", NodeTopology(node="n", version=1, cores=cores, zones=zones))
    run.pods([pinned("a", 3, requiredCPUBindPolicy=FULL), pinned("b", 1, requiredCPUBindPolicy=FULL)])
    run.round()
    assert cpus_of(held(run, "a")) == "0-2"
    run.delete_pod("b")
    run.pod(zoned(pinned("c", 2, memory=0), "SingleNUMANode"))
    run.round()
    assert (cpus_of(held(run, "c")), zones_of(held(run, "c"))) == ("5-6", {900: {names.CPU: 2000}})


def test_there_may_be_many_nodes(solving: type[Any]) -> None:
    run = solving()
    for index in range(300):
        run.node(f"n{index}", labels={names.LABEL_NUMA_POLICY: "Restricted"} if index % 2 else {})
        run.topology(f"n{index}", node_topology(zones=1 + index % 3, cores=1))
    run.pods([pinned(f"p{index}", 2) for index in range(150)])
    assert len(run.round().placements) == 150
