"""CPUs of their own and shares of NUMA nodes, from the pod's wish to its record and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.grants import CPU, ZONE, one
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Grant
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import NodeResourceTopology, PodTemplate, Reservation
from berth.contracts.topology import CoreCpus, NodeTopology, ZoneCapacity
from berth.placement_solver.core import explain
from berth.placement_solver.core.constraints.node_numa_resource import UNCOUNTED, UNKNOWN, WAIT
from berth.placement_solver.core.cores import CoresAsked
from berth.placement_solver.core.cores.make import make_of
from berth.placement_solver.core.cores.store import KINDS
from berth.placement_solver.core.plan import Placement
from berth.placement_solver.core.solve import Trial
from berth.rules.cpus.available import usable_cpus
from berth.rules.cpus.bind_policy import KUBELET_GIVES, NO_LAYOUT
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.kubelet import BEST_EFFORT
from berth.rules.cpus.take import NOT_ENOUGH
from berth.testing.builders import GI, PodBuilder, node_topology, pod
from berth.testing.vectors import cases
from berth.transaction.claims import Claim

FULL, SPREAD = "FullPCPUs", "SpreadByPCPUs"


def pinned(name: str, cpus: int, *, qos: str = "LSR", memory: int = 0, **spec: str) -> PodBuilder:
    """A pod that asks for CPUs of its own."""
    builder = pod(name).requests(cpu=1000 * cpus, memory=memory).label(names.LABEL_QOS, qos)
    return builder.annotation(names.ANNOTATION_RESOURCE_SPEC, json.dumps(spec)) if spec else builder


def zoned(builder: PodBuilder, policy: str, exclusive: str = "Preferred") -> PodBuilder:
    wish = {"numaTopologyPolicy": policy, "singleNUMANodeExclusive": exclusive}
    return builder.annotation(names.ANNOTATION_NUMA_SPEC, json.dumps(wish))


def cpus_of(grants: Iterable[Grant]) -> str:
    return format_cpuset(int(grant.id) for grant in grants if grant.kind == CPU)


def zones_of(grants: Iterable[Grant]) -> dict[int, dict[str, int]]:
    return {int(grant.id): dict(grant.amounts) for grant in grants if grant.kind == ZONE}


def held(run: Any, name: str) -> tuple[Grant, ...]:
    (claim,) = run.cluster.book.claims_of(("default", name))
    grants: tuple[Grant, ...] = claim.grants
    return grants


def told(run: Any) -> str:
    """What the last pod is told, as `berth why` has it."""
    (refusal,) = run.round().refusals
    return explain.message(refusal.reasons, int(run.cluster.nodes.alive.sum()))


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """One node with two zones of four cores with two CPUs each."""
    made = solving()
    made.node("n", cpu=16_000)
    made.topology("n", node_topology(zones=2))
    return made


# --- CPUs of their own ------------------------------------------------------------------------------------------------


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


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_without_topology_gives_none(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.pod(pinned("a", 2))
    assert NO_LAYOUT in told(run)


def test_kubelets_static_policy_keeps_them(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.topology("n", node_topology(cpu_manager="static", full_cores=True))
    run.pods([pinned("a", 2), pod("plain").requests(cpu=1500)])
    assert KUBELET_GIVES in told(run)
    assert held(run, "plain") == ()


def test_a_profile_may_give_cpus_beside_kubelet(solving: type[Any]) -> None:
    run = solving()
    assert run.configure(pluginConfig=[{"name": "Berth", "args": {"ownCpusBesideKubelet": True}}])
    run.node("n")
    run.topology("n", node_topology(cpu_manager="static", full_cores=True, reserved=(0, 1)))
    run.pods([pinned("a", 2), pinned("odd", 3)])
    assert "node(s) requested cpus not multiple cpus per core" in told(run)
    assert cpus_of(held(run, "a")) == "2-3"


def test_a_topology_that_waits_to_be_read_gives_none(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.version += 1
    report = NodeResourceTopology(name="n", version=run.version)
    run.state(subjects.named_key("noderesourcetopology", "n"), report)
    run.pod(pinned("a", 2))
    assert told(run) == f"0/1 nodes are available: 1 {UNCOUNTED}. To repair: {WAIT}."
    run.topology("n", node_topology())
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_after_a_loss_an_older_topology_is_not_planned_with(run: Any) -> None:
    older = run.version
    run.topology("n", node_topology(zones=2, reserved=tuple(range(12))))
    run.cluster.reset_inventory()
    old = structs.replace(node_topology("n", zones=2), version=older)
    run.cluster.read_inventory(subjects.named_key("topology", "n"), encode(old), False)
    run.pod(pinned("a", 2))
    assert UNCOUNTED in told(run)
    new = structs.replace(node_topology("n", zones=2, reserved=tuple(range(12))), version=run.version - 1)
    run.cluster.read_inventory(subjects.named_key("topology", "n"), encode(new), False)
    run.cluster.now += 1000
    run.round()
    assert cpus_of(held(run, "a")) == "12-13"


def test_a_node_may_give_cpus_to_every_pod(solving: type[Any]) -> None:
    run = solving()
    run.pod(pod("early").requests(cpu=2000))
    run.round()
    label = {names.LABEL_CPU_BIND_POLICY: "SpreadByPCPUs"}
    run.node("n", labels=label)
    run.topology("n", node_topology())
    run.cluster.now += 1000
    run.pods([pod("late").requests(cpu=2000), pod("part").requests(cpu=1500), pod("none").requests(memory=GI)])
    solution = run.round()
    assert run.nodes_of(solution) == {"early": "n", "late": "n", "none": "n"}
    assert [refusal.candidate.name[1] for refusal in solution.refusals] == ["part"]
    assert [cpus_of(held(run, name)) for name in ("early", "late", "none")] == ["0,2", "1,3", ""]
    run.bind(pod("early").requests(cpu=2000))
    assert cpus_of(held(run, "early")) == "0,2"
    run.node("n")
    run.pod(pod("after").requests(cpu=1500))
    assert run.nodes_of(run.round()) == {"after": "n"}
    assert held(run, "after") == ()


def test_a_record_that_cannot_be_read_keeps_cpus_from_everybody(run: Any) -> None:
    run.pod(pinned("torn", 2).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0-99999999"}').on("n"))
    run.pods([pinned("a", 2), pod("plain").requests(cpu=1000)])
    assert UNKNOWN in told(run)
    assert held(run, "plain") == ()
    run.delete_pod("torn")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_a_record_of_others_counts(run: Any) -> None:
    run.pod(pinned("other", 4).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0,1,8,9"}').on("n"))
    run.pod(pinned("a", 4))
    run.round()
    assert not {*range(2), 8, 9} & {int(grant.id) for grant in held(run, "a")}


def test_a_topology_that_changes_under_holders_keeps_what_they_hold(run: Any) -> None:
    run.pod(pinned("a", 4))
    run.round()
    run.topology("n", node_topology(zones=1))
    run.pod(pinned("b", 4))
    run.round()
    assert cpus_of(held(run, "b")) == "4-7"
    run.topology("n", node_topology(zones=2))
    run.pod(pinned("c", 8, requiredCPUBindPolicy=FULL))
    run.round()
    assert cpus_of(held(run, "c")) == "8-15"


# --- NUMA nodes -------------------------------------------------------------------------------------------------------


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


# --- reservations -----------------------------------------------------------------------------------------------------


def reserving(run: Any, builder: PodBuilder, policy: str = "") -> tuple[Grant, ...]:
    """A Reservation r for pods with the label app=mine that asks for what the builder does, placed and Available, its
    decision forgotten as after a restart; what it holds."""
    template = builder.build(1).template
    owners = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "mine"}))]
    run.reservation(Reservation(name="r", uid="uid-r", version=1, template=template, owners=owners))
    run.round()
    (claim,) = run.cluster.book.claims_of(("", "r"))
    decision = run.cluster.book.ledger.decisions["", "r"].decision
    bound = Reservation(
        name="r",
        uid="uid-r",
        version=1,
        template=template,
        annotations=decision.annotations,
        phase="Available",
        node="n",
        plan=decision.plan,
        allocatable=template.requests,
        owners=owners,
    )
    capacity = ReservedCapacity(
        name="r",
        uid="uid-r",
        revision=1,
        phase="Available",
        node="n",
        usable=True,
        amounts=template.requests,
        allocate_policy=policy,
        allocate_once=False,
        owners=owners,
    )
    run.reservation(bound, capacity)
    (read,) = run.cluster.book.claims_of(("", "r"))
    assert read.grants == claim.grants, "the record says what was decided"
    grants: tuple[Grant, ...] = read.grants
    return grants


def mine(builder: PodBuilder) -> PodBuilder:
    return builder.label("app", "mine")


def test_a_reservation_has_cpus_of_its_own_that_nobody_else_gets(run: Any) -> None:
    exclusive = {"preferredCPUExclusivePolicy": "PCPULevel"}
    grants = reserving(run, pinned("t", 4, **exclusive))
    assert (cpus_of(grants), {grant.extension for grant in grants}) == ("0-3", {"PCPULevel"})
    run.pod(pinned("stranger", 12).label(names.LABEL_RESERVATION_IGNORED, "true"))
    run.round()
    assert cpus_of(held(run, "stranger")) == "4-15"


def test_a_user_gets_the_cpus_of_its_reservation_and_the_rest_from_the_node(run: Any) -> None:
    run.pod(pinned("x", 2).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0-1"}').on("n"))
    assert cpus_of(reserving(run, pinned("t", 4))) == "8-11"
    run.pods([mine(pinned("a", 2)), mine(pinned("b", 4)), pinned("c", 8)])
    solution = run.round()
    drawn = {each.candidate.name[1]: each.reservation for each in solution.placements}
    assert drawn == {"a": "r", "b": "r", "c": ""}
    assert cpus_of(held(run, "a")) == "8-9"
    assert {10, 11} < {int(grant.id) for grant in held(run, "b") if grant.kind == CPU}


def test_of_a_restricted_reservation_come_its_own_cpus_alone(run: Any) -> None:
    reserving(run, zoned(pinned("t", 4, memory=GI), "SingleNUMANode"), "Restricted")
    run.pods([mine(zoned(pinned("a", 3, memory=GI), "SingleNUMANode")), mine(pinned("b", 2)), mine(pinned("c", 1))])
    solution = run.round()
    drawn = {each.candidate.name[1]: (each.reservation, cpus_of(each.claim.grants)) for each in solution.placements}
    assert drawn == {"a": ("r", "0-2"), "b": ("", "8-9"), "c": ("r", "3")}
    assert zones_of(held(run, "a")) == {0: {names.CPU: 3000, names.MEMORY: GI}}


def test_the_verifier_finds_cpus_beside_a_restricted_reservation(run: Any) -> None:
    reserving(run, pinned("t", 4), "Restricted")
    plan = Planned(run, [mine(pinned("a", 2))])
    assert plan.claims[0].reservation == "uid-r"
    assert plan.with_grants(*own(4, 5)) == [
        "node n: default/a: reservation r holds 0 of cpu 4 count, its users take 1",
        "node n: default/a: reservation r holds 0 of cpu 5 count, its users take 1",
    ]


def test_books_of_a_reservation_and_its_users_are_the_same_after_a_restart(run: Any, solving: type[Any]) -> None:
    reserving(run, zoned(pinned("t", 4, memory=GI), "SingleNUMANode"))
    user = mine(zoned(pinned("a", 2, memory=GI), "SingleNUMANode"))
    run.pod(user)
    run.round()
    run.bind(user)
    assert run.cluster.nodes.cores.free_cpus(0) == frozenset(range(4, 16))
    before = shown(run.cluster.nodes, 0)
    again = solving()
    again.node("n", cpu=16_000)
    again.topology("n", node_topology(zones=2))
    again.reservation(run.cluster.book.reservations["", "r"], run.cluster.reservations.known["uid-r"].capacity)
    again.pod(user)
    assert shown(again.cluster.nodes, 0) == before


# --- laws -------------------------------------------------------------------------------------------------------------


class Planned:
    """A plan for pods, which the verifier accepts."""

    def __init__(self, run: Any, builders: list[PodBuilder]) -> None:
        self.run = run
        run.pods(builders)
        solution, trial = run.solve()
        trial.undo()
        assert solution.refusals == ()
        self.claims: list[Claim] = [placement.claim for placement in solution.placements]
        assert run.verifier.check(self.claims) == []

    def with_grants(self, *grants: Grant) -> list[str]:
        """What is wrong once the last claim has these grants."""
        problems: list[str] = self.run.verifier.check([*self.claims[:-1], self.claims[-1]._replace(grants=grants)])
        return problems


def own(*cpus: int) -> tuple[Grant, ...]:
    return tuple(one(CPU, str(cpu)) for cpu in cpus)


def share(zone: int, **amounts: int) -> Grant:
    return Grant(kind=ZONE, id=str(zone), amounts=amounts)


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


# --- properties -------------------------------------------------------------------------------------------------------

LAWS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def waiting(draw: st.DrawFn, index: int, cpus_max: int = 5) -> PodBuilder:
    name = f"p{index}"
    builder = pod(name).requests(cpu=1000 * draw(st.integers(1, cpus_max)), memory=draw(st.integers(0, 3)) * GI)
    builder.label(names.LABEL_QOS, draw(st.sampled_from(["LSR", "LSE", "LS", ""])))
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "requiredCPUBindPolicy": st.sampled_from([FULL, SPREAD, "Default", ""]),
                "preferredCPUBindPolicy": st.sampled_from([FULL, SPREAD]),
                "preferredCPUExclusivePolicy": st.sampled_from(["PCPULevel", "NUMANodeLevel"]),
            },
        )
    )
    builder.annotation(names.ANNOTATION_RESOURCE_SPEC, json.dumps(spec))
    policy = draw(st.sampled_from(["", "", "BestEffort", "Restricted", "SingleNUMANode"]))
    return zoned(builder, policy, draw(st.sampled_from(["Required", "Preferred"]))) if policy else builder


@st.composite
def clusters(draw: st.DrawFn, solving: type[Any]) -> Any:
    run = solving()
    for index in range(draw(st.integers(1, 2))):
        labels = draw(
            st.sampled_from(
                [
                    *([{}] * 4),
                    {names.LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"},
                    {names.LABEL_NUMA_POLICY: "Restricted"},
                    {names.LABEL_NUMA_POLICY: "SingleNUMANode", names.LABEL_NUMA_STRATEGY: "MostAllocated"},
                ]
            )
        )
        ratio = draw(st.sampled_from(["", "", '{"cpu":1.5}']))
        annotations = {names.ANNOTATION_AMPLIFICATION_RATIO: ratio} if ratio else {}
        run.node(f"n{index}", cpu=24_000, memory=16 * GI, labels=labels, annotations=annotations)
        if draw(st.integers(0, 4)):
            run.topology(
                f"n{index}",
                node_topology(
                    zones=draw(st.sampled_from([1, 2, (3, 64), (0, 2, 9)])),
                    cores=draw(st.integers(1, 3)),
                    threads=draw(st.integers(1, 2)),
                    reserved=draw(st.sampled_from([(), (0,), (1, 2)])),
                    memory=draw(st.integers(1, 6)) * GI,
                ),
            )
    for index in range(draw(st.integers(0, 2))):
        run.pod(pod(f"other-{index}").requests(cpu=1500, memory=GI).on("n0"))
    return run


@LAWS
@given(data=st.data())
def test_what_the_solver_chooses_the_verifier_accepts_and_books_come_out_the_same(
    solving: type[Any], data: st.DataObject
) -> None:
    run = data.draw(clusters(solving))
    builders = [data.draw(waiting(index)) for index in range(data.draw(st.integers(1, 6)))]
    run.pods(builders)
    solution = run.round()  # asserts that the verifier has nothing against it
    placed = {placement.candidate.name[1] for placement in solution.placements}
    bound = [builder for builder in builders if builder.build(0).name in placed]
    for builder in bound:
        run.bind(builder)
    nodes = run.cluster.nodes
    outline = CoresAsked.outline
    for constraint, query in (each for cls in run.cluster.classes for each in cls.asked):
        one_by_one = [constraint.admits(query, row) for row in range(len(nodes))]
        assert constraint.mask(query, slice(0, len(nodes))).tolist() == one_by_one, constraint.name
        with patch.object(CoresAsked, "outline", lambda query: outline(query)._replace(alike=None)):
            assert constraint.mask(query, slice(0, len(nodes))).tolist() == one_by_one, constraint.name
    cores = nodes.cores
    cores.follow()
    for row in range(len(nodes)):
        layout, free = cores.ground(row).layout, cores.free_cpus(row)
        counted = [len(usable_cpus(layout, free, kind)) if layout is not None else 0 for kind in KINDS]
        assert (cores.free[:, row].tolist(), cores.pinned[row]) == (counted, len(cores.pinned_cpus(row)))
    before = {row: shown(nodes, row) for row in range(len(nodes))}
    again = solving()
    for name in data.draw(st.permutations([builder.build(0).name for builder in bound])):
        builder = next(each for each in bound if each.build(0).name == name)
        again.pod(builder)
    for row, name in enumerate(nodes.names):
        again.cluster.nodes.see_node(name, nodes.states[row])
        again.cluster.nodes.see_topology(name, nodes.topologies[row])
    for index in range(2):
        if run.cluster.book.claims_of(("default", f"other-{index}")):
            again.pod(pod(f"other-{index}").requests(cpu=1500, memory=GI).on("n0"))
    rebuilt = {again.cluster.nodes.names.index(nodes.names[row]): row for row in range(len(nodes))}
    assert {rebuilt[row]: shown(again.cluster.nodes, row) for row in rebuilt} == before


def shown(nodes: Any, row: int) -> Any:
    """What a node has free, as far as it is anybody's business here."""
    zones = nodes.cores.zones(row)
    return (nodes.cores.free_cpus(row), zones.available, nodes.cores.status(row))


@LAWS
@given(data=st.data())
def test_a_pod_is_placed_if_and_only_if_some_choice_would_do(solving: type[Any], data: st.DataObject) -> None:
    """Every choice of CPUs and every split of cpu over NUMA nodes is tried, and judged by the verifier."""
    run = solving()
    run.node("n", cpu=24_000)
    topology = node_topology(
        zones=data.draw(st.sampled_from([1, 2])), cores=2, reserved=data.draw(st.sampled_from([(), (0,)]))
    )
    run.topology("n", topology)
    free = [cpu for core in topology.cores for cpu in core.cpus]
    for index, cpus in enumerate(
        data.draw(st.lists(st.sets(st.sampled_from(free), min_size=1, max_size=3), max_size=2))
    ):
        text = json.dumps({"cpuset": format_cpuset(cpus)})
        run.pod(pinned(f"h{index}", len(cpus)).annotation(names.ANNOTATION_RESOURCE_STATUS, text).on("n"))
    builder = data.draw(waiting(0, cpus_max=4)).requests(memory=0)
    builder._requests.pop(names.MEMORY, None)
    run.pod(builder)
    units, _ = run.cluster.batch(10)
    ((candidate,),) = [unit.candidates for unit in units]
    assume(not candidate.cls.refusals)
    trial = Trial(run.cluster.capacity)
    found = run.cluster.solver.place(candidate, trial, "plan")
    claims = list(trial.claims)
    trial.undo()
    template: PodTemplate = candidate.object.template
    empty = Claim(name=candidate.name, uid=candidate.object.uid, node="n", amounts=dict(template.requests), plan="plan")
    choices = any(
        run.verifier.check([empty._replace(grants=grants)]) == [] for grants in every_choice(template, topology)
    )
    assert isinstance(found, Placement) == choices, (template, found, topology)
    assert all(run.verifier.check([claim]) == [] for claim in claims)


def every_choice(template: PodTemplate, topology: NodeTopology) -> Iterable[tuple[Grant, ...]]:
    zone_of = {cpu: core.zone for core in topology.cores for cpu in core.cpus}
    milli = template.requests[names.CPU]
    zones = [each.zone for each in topology.zones]
    splits: list[tuple[Grant, ...]] = [(), *((share(zone, cpu=milli),) for zone in zones)]
    if len(zones) == 2:
        splits += [(share(zones[0], cpu=part), share(zones[1], cpu=milli - part)) for part in range(500, milli, 500)]
    yield from splits
    for some in combinations(sorted(zone_of), milli // 1000):
        parts: dict[int, int] = {}
        for cpu in some:
            parts[zone_of[cpu]] = parts.get(zone_of[cpu], 0) + 1000
        yield own(*some)
        yield (*own(*some), *(share(zone, cpu=part) for zone, part in parts.items()))


SAYING = st.sampled_from(
    [{}, {"zone": "a"}, {names.LABEL_NUMA_POLICY: BEST_EFFORT}, {names.LABEL_CPU_BIND_POLICY: FULL}]
)
RATIOS = st.sampled_from([{}, {names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu": 1.5}'}])
EVENTS = st.tuples(st.sampled_from("abc"), st.sampled_from(["node", "gone", "topology", "look"]), SAYING, RATIOS)


@LAWS
@given(events=st.lists(EVENTS, max_size=16))
def test_the_make_of_a_node_is_that_of_what_is_shown_now(
    solving: type[Any], events: list[tuple[str, str, dict[str, str], dict[str, str]]]
) -> None:
    """Whatever came before: nodes that go and come, under names that others had, with topologies that stay."""
    run = solving()
    nodes, cores = run.cluster.nodes, run.cluster.nodes.cores
    for name, what, labels, notes in events:
        if what == "node":
            run.node(name, labels=labels, annotations=notes)
        elif what == "gone" and name in nodes.rows:
            run.delete(subjects.named_key("node", name))
        elif what == "topology":
            run.topology(name, node_topology(zones=2, policy=labels.get(names.LABEL_NUMA_POLICY, "")))
        elif what == "look":
            cores.follow()
    cores.follow()
    for row in range(len(nodes)):
        node, ratio = nodes.states[row], cores.ratio(row)
        assert cores.make_of(row) == make_of(node.labels if node is not None else {}, cores.ground(row), ratio)
        assert cores.ratios[row] == ratio
    assert cores.imposes == any(cores.make_of(row).imposes for row in range(len(nodes)))


def test_nodes_that_say_nothing_of_cpus_are_not_looked_at(solving: Any) -> None:
    run = solving()
    for index in range(20):
        run.node(f"plain-{index}", labels={"zone": str(index)})
    run.node("bound", labels={names.LABEL_NUMA_POLICY: BEST_EFFORT})
    cores, looked = run.cluster.nodes.cores, []
    with patch.object(type(cores), "_remake", lambda self, row: looked.append(row)):
        cores.follow()
        cores.follow()
    assert looked == [run.cluster.nodes.rows["bound"]]
