"""What is told to who gets no CPUs of its own, or no share of NUMA nodes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.cores import FULL, pinned, told, zoned

from berth.contracts import names
from berth.rules.cpus.take import NOT_ENOUGH
from berth.testing.builders import GI, PodBuilder, pod


def test_too_few_cpus_are_told_with_the_nearest_miss(run: Any) -> None:
    run.node("n", cpu=64_000)
    run.pods([pinned("a", 14), pinned("b", 4)])
    assert told(run) == (
        f"0/1 nodes are available: 1 {NOT_ENOUGH}. "
        "To repair: free 2 exclusive CPUs on node n, or ask for 2 exclusive CPUs."
    )


def test_a_pod_that_asks_for_more_than_any_node_has_is_told_so(run: Any) -> None:
    run.node("n", cpu=64_000)
    run.pod(pinned("a", 18))
    assert told(run) == (
        f"0/1 nodes are available: 1 {NOT_ENOUGH}. To repair: ask for at most 16 exclusive CPUs, which node n has free."
    )
    run.delete_pod("a")
    run.pod(pinned("a", 16))
    assert run.nodes_of(run.round()) == {"a": "n"}


@pytest.mark.parametrize(
    ("policy", "less", "amounts"),
    [
        ("SingleNUMANode", "8 cpu of one NUMA node", {"cpu": 8000, "memory": GI}),
        ("SingleNUMANode", "8 cpu and 64Gi memory of one NUMA node", {"cpu": 8000, "memory": 64 * GI}),
        ("Restricted", "16 cpu of its NUMA nodes", {"cpu": 16_000}),
    ],
)
def test_a_pod_larger_than_numa_nodes_is_told_what_they_have(
    run: Any, policy: str, less: str, amounts: dict[str, int]
) -> None:
    run.node("n", cpu=64_000, memory=512 * GI)
    more = {name: amount if amount == GI else 3 * amount for name, amount in amounts.items()}
    run.pod(zoned(pod("a").requests(**more), policy))
    assert f"To repair: ask for at most {less}, which node n has free." in told(run)
    run.delete_pod("a")
    run.pod(zoned(pod("a").requests(**amounts), policy))
    assert run.nodes_of(run.round()) == {"a": "n"}


@pytest.mark.parametrize(
    ("labels", "builder", "words"),
    [
        ({}, pinned("a", 3, requiredCPUBindPolicy=FULL), "ask for as many CPUs as whole cores have"),
        ({names.LABEL_NUMA_POLICY: "Restricted"}, zoned(pinned("a", 2), "SingleNUMANode"), "ask for the NUMA policy"),
    ],
)
def test_who_fits_no_node_whatever_becomes_free_is_told_a_way(
    run: Any, labels: dict[str, str], builder: PodBuilder, words: str
) -> None:
    run.node("n", labels=labels)
    run.pod(builder)
    assert f"To repair: {words}" in told(run)


def test_a_node_whose_cpus_nobody_reports_is_said_to_lack_the_report(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.pod(pinned("a", 2))
    assert (
        f"To repair: have the CPUs of a node reported: a NodeResourceTopology with {names.ANNOTATION_CPU_TOPOLOGY}"
        in told(run)
    )


@pytest.mark.parametrize(
    ("builder", "field"),
    [
        (pinned("a", 1).requests(cpu=1500), "resources.requests[cpu]"),
        (pinned("a", 1).annotation(names.ANNOTATION_RESOURCE_SPEC, "{"), names.ANNOTATION_RESOURCE_SPEC),
        (pinned("a", 1, requiredCPUBindPolicy="ConstrainedBurst"), "requiredCPUBindPolicy"),
        (zoned(pinned("a", 1), "Sometimes"), "numaTopologyPolicy"),
        (zoned(pod("a").requests(cpu=1), "Restricted", "Perhaps"), "singleNUMANodeExclusive"),
    ],
)
def test_what_cannot_be_honoured_names_its_field(run: Any, builder: PodBuilder, field: str) -> None:
    run.pod(builder)
    (refusal,) = run.round().refusals
    assert [(reason.code, field in reason.field) for reason in refusal.reasons] == [("invalid", True)]
