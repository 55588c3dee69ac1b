"""Laws of pools and containers, and what is not of the form it should have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.cpus.bind_policy import (
    CONFLICT,
    KUBELET_GIVES,
    NO_LAYOUT,
    NOT_INTEGER,
    NOT_WHOLE_CORES,
    CpuBinding,
    NodeBinding,
    bind_on_node,
    cpu_binding,
    read_resource_spec,
    unsupported_policy,
)
from berth.rules.cpus.container_cpuset import container_cpuset
from berth.rules.cpus.cpuset import read_cpuset
from berth.rules.cpus.kubelet import (
    BEST_EFFORT,
    RESTRICTED,
    SINGLE_NUMA_NODE,
    STATIC,
    Checkpoint,
    CpuManager,
    HeldCpus,
    NodePod,
    PodCpus,
    format_cpu_manager,
    format_pod_cpu_allocs,
    kubelet_allocations,
    numa_policy,
    read_checkpoint,
    read_cpu_manager,
    read_pod_cpu_allocs,
)
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.cpus.node_reservation import NOTHING, cpus_by_number, cpus_of, read_node_reservation, trimmed
from berth.rules.cpus.qos import QOS_CLASSES
from berth.rules.cpus.reserved import reserved_cpus, zone_cpu_milli
from berth.rules.cpus.resource_status import ResourceStatus, ZoneShare, format_resource_status, read_resource_status
from berth.rules.cpus.shared_pools import shared_pools
from berth.rules.cpus.system_qos import SystemCpus, read_system_cpus
from berth.rules.cpus.zone_reservation import kubelet_reservation, zone_allocatable, zone_part

LAYOUT = CpuLayout(Cpu(cpu, cpu // 2 % 2, cpu // 4, 3 * (cpu // 4)) for cpu in range(8))
"""Two sockets of two cores of two threads, zones 0 and 3, core ids that repeat."""
ids = st.frozensets(st.integers(0, 9))
pods = st.lists(st.builds(NodePod, st.uuids().map(str), st.sampled_from(["", *sorted(QOS_CLASSES)]), ids), max_size=4)


def note(name: str, content: Any) -> dict[str, str]:
    return {name: content if isinstance(content, str) else json.dumps(content)}


# --- pools ------------------------------------------------------------------------------------------------------------


@given(pods, st.lists(ids, max_size=2), ids, ids)
def test_nobody_shares_what_somebody_has_to_himself(
    those: list[NodePod], held: list[frozenset[int]], reserved: frozenset[int], system: frozenset[int]
) -> None:
    kubelet = [PodCpus(str(place), cpus) for place, cpus in enumerate(held)]
    pools = shared_pools(LAYOUT, kubelet=kubelet, pods=those, reserved=reserved, system=system)
    shared = frozenset().union(*(pool.cpus for pool in pools.shared))
    best_effort = frozenset().union(*(pool.cpus for pool in pools.best_effort))
    nobodys = reserved.union(system, *held)
    assert shared == LAYOUT.all - nobodys - frozenset().union(*(pod.cpus for pod in those))
    assert best_effort == LAYOUT.all - nobodys - frozenset().union(*(pod.cpus for pod in those if pod.qos == "LSE"))
    for of in (pools.shared, pools.best_effort):
        assert sorted(of, key=lambda pool: (pool.socket, pool.zone)) == list(of)
        assert sum(len(pool.cpus) for pool in of) == len(frozenset().union(*(pool.cpus for pool in of)))
        assert all(pool.cpus <= LAYOUT.zone_cpus[pool.zone] & LAYOUT.socket_cpus[pool.socket] for pool in of)


statuses = st.builds(
    lambda cpus, zones: read_resource_status(
        note(names.ANNOTATION_RESOURCE_STATUS, format_resource_status(cpus, zones))
    ),
    ids,
    st.lists(
        st.builds(
            ZoneShare, st.integers(0, 5), st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 4096))
        )
    ),
)


@given(statuses, pods, st.sampled_from(["", *sorted(QOS_CLASSES)]), st.booleans(), st.booleans(), st.booleans())
def test_a_container_runs_on_its_own_cpus_or_on_shared_ones(
    status: ResourceStatus, those: list[NodePod], qos: str, below: bool, static: bool, by_zone: bool
) -> None:
    assert not isinstance(status, Problem)
    pools = shared_pools(LAYOUT, pods=those)
    text = container_cpuset(
        status, pools, qos=qos, in_best_effort_group=below, kubelet_static=static, best_effort_by_zone=by_zone
    )
    if text is None:
        assert static
        return
    cpus = read_cpuset(text, "f")
    assert not isinstance(cpus, Problem)
    if status.cpus:
        assert cpus == status.cpus
        return
    offered = pools.best_effort if qos == "BE" and by_zone else pools.shared
    assert cpus <= frozenset().union(*(pool.cpus for pool in offered), *(pool.cpus for pool in pools.shared))


def test_a_zone_without_a_pool_gives_an_empty_text() -> None:
    status = ResourceStatus(zones=(ZoneShare(7, {"cpu": 1000}),))
    assert container_cpuset(status, shared_pools(LAYOUT), qos="LS", in_best_effort_group=False) == ""


def test_a_zone_with_parts_in_two_sockets_gives_both() -> None:
    pools = shared_pools(CpuLayout([Cpu(0, 0, 0, 0), Cpu(1, 0, 1, 0)]))
    status = ResourceStatus(zones=(ZoneShare(0, {"cpu": 1000}), ZoneShare(0, {"cpu": 500})))
    assert container_cpuset(status, pools, qos="LS", in_best_effort_group=False) == "0,1"


def test_best_effort_by_zone() -> None:
    pools = shared_pools(LAYOUT, pods=[NodePod("u", "LSR", frozenset({0}))])
    status = ResourceStatus(zones=(ZoneShare(0, {names.BATCH_CPU: 1000}),))
    options: dict[str, Any] = {"qos": "BE", "in_best_effort_group": True}
    assert container_cpuset(status, pools, best_effort_by_zone=True, **options) == "0-3"
    assert container_cpuset(status, pools, **options) == ""


# --- kubelet ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "label", "want"),
    [
        ("BestEffortPodLevel", "Restricted", BEST_EFFORT),
        ("RestrictedContainerLevel", "", RESTRICTED),
        ("SingleNUMANodeContainerLevel", "BestEffort", SINGLE_NUMA_NODE),
        ("SingleNUMANode", "", SINGLE_NUMA_NODE),
        ("None", "Restricted", RESTRICTED),
        ("", "SingleNUMANode", SINGLE_NUMA_NODE),
        ("SomethingPodLevel", "None", ""),
        ("PodLevel", "restricted", ""),
    ],
)
def test_kubelets_policy_counts_at_every_level_and_beats_the_label(reported: str, label: str, want: str) -> None:
    assert numa_policy(reported, label) == want


def test_a_checkpoint_that_is_not_static_holds_nothing() -> None:
    entries = {"u": {"c": frozenset({1})}}
    assert kubelet_allocations(Checkpoint("none", entries), []) == []
    assert kubelet_allocations(Checkpoint(STATIC, entries), []) == [PodCpus("u", frozenset({1}))]


def test_what_podresources_say_counts_as_the_checkpoint_does() -> None:
    pods = [
        NodePod("u1", namespace="a", name="p"),
        NodePod("u2", "LS", namespace="a", name="ls"),
        NodePod("u3", "LSR", frozenset({5}), "a", "own"),
    ]
    held = [HeldCpus("a", name, frozenset({cpu})) for cpu, name in enumerate(("p", "ls", "own", "unseen", "p"))]
    found = kubelet_allocations(Checkpoint(), pods, held)
    assert found == [PodCpus("a/unseen", frozenset({3}), "a", "unseen"), PodCpus("u1", frozenset({0, 4}), "a", "p")]
    both = kubelet_allocations(Checkpoint(STATIC, {"u1": {"c": frozenset({0})}}), pods, held[:1])
    assert both == [PodCpus("u1", frozenset({0}), "a", "p")]


def test_what_is_written_of_kubelet_is_read_again() -> None:
    manager = CpuManager(STATIC, {"full-pcpus-only": "true"}, frozenset({0, 1}))
    assert read_cpu_manager(note(names.ANNOTATION_CPU_MANAGER_POLICY, format_cpu_manager(manager))) == manager
    allocs = [PodCpus("u", frozenset({3}), "ns", "n"), PodCpus("v", frozenset({4}), managed_by_kubelet=False)]
    assert read_pod_cpu_allocs(note(names.ANNOTATION_POD_CPU_ALLOCS, format_pod_cpu_allocs(allocs))) == allocs
    assert format_pod_cpu_allocs([]) == "null"
    assert read_pod_cpu_allocs(note(names.ANNOTATION_POD_CPU_ALLOCS, "null")) == []


def test_reserved_cpus_are_kubelets_alone_and_of_pods_with_a_uid() -> None:
    allocs = [
        {"uid": "a", "cpuset": "1", "managedByKubelet": True},
        {"uid": "b", "cpuset": "2"},
        {"cpuset": "3", "managedByKubelet": True},
    ]
    assert reserved_cpus(note(names.ANNOTATION_POD_CPU_ALLOCS, allocs)).cpus == {1}


def test_what_cannot_be_read_is_told_and_the_rest_counts() -> None:
    notes = {
        **note(names.ANNOTATION_POD_CPU_ALLOCS, [{"uid": "a", "cpuset": "0-99999999", "managedByKubelet": True}]),
        **note(names.ANNOTATION_CPU_MANAGER_POLICY, {"policy": STATIC, "reservedCPUs": "0-1"}),
        **note(names.ANNOTATION_NODE_RESERVATION, "{"),
        **note(names.ANNOTATION_NODE_SYSTEM_QOS, {"cpuset": "9-1"}),
    }
    found = reserved_cpus(notes)
    assert found.cpus == {0, 1}
    assert [problem.field for problem in found.problems] == [
        f"metadata.annotations[{names.ANNOTATION_POD_CPU_ALLOCS}][0].cpuset",
        f"metadata.annotations[{names.ANNOTATION_NODE_RESERVATION}]",
        f"metadata.annotations[{names.ANNOTATION_NODE_SYSTEM_QOS}].cpuset",
    ]


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (read_resource_status, names.ANNOTATION_RESOURCE_STATUS, {"cpuset": "0-99999999"}),
        (read_resource_status, names.ANNOTATION_RESOURCE_STATUS, {"numaNodeResources": [{"node": "0"}]}),
        (read_resource_status, names.ANNOTATION_RESOURCE_STATUS, {"numaNodeResources": [{"node": -1}]}),
        (
            read_resource_status,
            names.ANNOTATION_RESOURCE_STATUS,
            {"numaNodeResources": [{"node": 0, "resources": {"cpu": "many"}}]},
        ),
        (read_system_cpus, names.ANNOTATION_NODE_SYSTEM_QOS, {"cpuset": "a"}),
        (read_system_cpus, names.ANNOTATION_NODE_SYSTEM_QOS, {"cpuset": "1", "cpusetExclusive": "yes"}),
        (read_cpu_manager, names.ANNOTATION_CPU_MANAGER_POLICY, {"policy": 3}),
        (read_cpu_manager, names.ANNOTATION_CPU_MANAGER_POLICY, {"reservedCPUs": "0-99999999"}),
        (read_pod_cpu_allocs, names.ANNOTATION_POD_CPU_ALLOCS, {"uid": "u"}),
        (read_resource_spec, names.ANNOTATION_RESOURCE_SPEC, "bad"),
        (read_resource_spec, names.ANNOTATION_RESOURCE_SPEC, {"requiredCPUBindPolicy": 1}),
    ],
)
def test_a_text_of_another_form_is_named(read: Callable[[dict[str, str]], Any], name: str, content: Any) -> None:
    for text in (content, "[" * 10_000, "\ud800", "{" + " " * 600_000):
        found = read(note(name, text))
        assert isinstance(found, Problem)
        assert found.field.startswith(f"metadata.annotations[{name}]")
    assert not isinstance(read({}), Problem)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"policyName": "static", "entries": {"u": "1-2"}}',
        '{"policyName": "static", "entries": {"u": {"c": "0-99999999"}}}',
        '{"policyName": "static", "entries": {"u": {"c": 7}}}',
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_a_problem_and_not_an_empty_one(text: str) -> None:
    found = read_checkpoint(text, "/var/lib/kubelet/cpu_manager_state")
    assert isinstance(found, Problem)
    assert found.field.startswith("/var/lib/kubelet/cpu_manager_state")


# --- reservations -----------------------------------------------------------------------------------------------------


@given(st.integers(-2, 12))
def test_a_number_of_cpus_is_as_many(number: int) -> None:
    assert len(cpus_by_number(LAYOUT, number)) == min(max(number, 0), len(LAYOUT.all))


def test_a_number_takes_whole_places_first() -> None:
    assert cpus_by_number(LAYOUT, 5) == {0, 1, 2, 3, 4}
    small_first = CpuLayout([*(Cpu(cpu, cpu // 2, 0, 0) for cpu in range(4)), Cpu(4, 0, 1, 1), Cpu(5, 0, 1, 1)])
    assert cpus_by_number(small_first, 3) == {4, 5, 0}
    two_zones_each = CpuLayout(Cpu(cpu, cpu // 2, cpu // 4, cpu // 2) for cpu in range(8))
    assert cpus_by_number(two_zones_each, 6) == {0, 1, 2, 3, 4, 5}
    uneven = CpuLayout([Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 0), Cpu(2, 1, 0, 0)])
    assert cpus_by_number(uneven, 1) == {2}


@pytest.mark.parametrize(
    "content",
    ["{", [], {"resources": {"cpu": "much"}}, {"reservedCPUs": 3}, {"reservedCPUs": "0-99999999"}, {"applyPolicy": 1}],
)
def test_a_node_reservation_that_cannot_be_read_keeps_nothing(content: Any) -> None:
    found, problem = read_node_reservation(note(names.ANNOTATION_NODE_RESERVATION, content))
    assert problem is not None
    assert problem.field.startswith(f"metadata.annotations[{names.ANNOTATION_NODE_RESERVATION}]")
    assert (found.cpus, found.number, found.amounts) == (frozenset(), 0, {})
    assert cpus_of(found, LAYOUT) == frozenset()


def test_amounts_of_a_node_reservation() -> None:
    content = {"resources": {"cpu": "4", "memory": "-1", names.BATCH_CPU: "1", names.NVIDIA_GPU: "1"}}
    found, problem = read_node_reservation(note(names.ANNOTATION_NODE_RESERVATION, content))
    assert problem is not None
    assert problem.field == f"metadata.annotations[{names.ANNOTATION_NODE_RESERVATION}].resources[memory]"
    allocatable = {"cpu": 3000, "memory": 5, names.BATCH_CPU: 10, names.NVIDIA_GPU: 2}
    assert trimmed(allocatable, found) == {"cpu": 0, "memory": 5, names.BATCH_CPU: 10, names.NVIDIA_GPU: 2}
    for policy in ("ReservedCPUsOnly", "Other"):
        only, _ = read_node_reservation(note(names.ANNOTATION_NODE_RESERVATION, content | {"applyPolicy": policy}))
        assert trimmed(allocatable, only) == allocatable
        assert only.number == 4
    assert read_node_reservation({}) == (NOTHING, None)


def test_system_cpus() -> None:
    assert read_system_cpus({}) == SystemCpus()
    found = read_system_cpus(note(names.ANNOTATION_NODE_SYSTEM_QOS, {"cpuset": "1", "cpusetExclusive": False}))
    assert isinstance(found, SystemCpus)
    assert (found.cpus, found.kept) == ({1}, frozenset())


def test_zones_without_cpu_stay_and_others_have_no_floor() -> None:
    zones = {0: frozenset({0, 1}), 4: frozenset({2, 3})}
    assert zone_cpu_milli({0: 0, 4: 1000, 9: 500}, zones, frozenset(range(4))) == {0: 0, 4: -1000, 9: 500}


def test_what_kubelet_keeps_of_zones() -> None:
    kept = kubelet_reservation({"cpu": 8000, "memory": 10, "pods": 5}, {"cpu": 12000, "memory": 4, "pods": 1})
    assert kept == {"cpu": 0, "memory": 6}
    assert kubelet_reservation({"cpu": 8000}, {}) == {}
    assert zone_allocatable({"cpu": 5}, {"cpu": 9}, 0) == {"cpu": 5}
    assert zone_part(9, 0) == 0
    assert zone_allocatable({"cpu": 5, "x": 2}, {"cpu": 3}, 2) == {"cpu": 3, "x": 2}


# --- bind policy ------------------------------------------------------------------------------------------------------

LSR = {names.LABEL_QOS: "LSR"}


def asked(labels: dict[str, str], spec: Any, requests: dict[str, int], priority: int | None = None) -> Any:
    return cpu_binding(labels, note(names.ANNOTATION_RESOURCE_SPEC, spec), priority, requests)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, CpuBinding(2, True, "", "FullPCPUs")),
        ({"preferredCPUBindPolicy": "Default"}, CpuBinding(2, True, "", "FullPCPUs")),
        ({"requiredCPUBindPolicy": "Default"}, CpuBinding(2, True, "FullPCPUs", "FullPCPUs")),
        ({"preferredCPUBindPolicy": "Fullpcpus"}, CpuBinding(2)),
        ({"preferredCPUBindPolicy": "ConstrainedBurst"}, CpuBinding(2)),
        ({"preferredCPUExclusivePolicy": "PCPULevel"}, CpuBinding(2, True, "", "FullPCPUs", "PCPULevel")),
    ],
)
def test_what_a_pod_asks_for(spec: Any, want: CpuBinding) -> None:
    assert asked(LSR, spec, {"cpu": 2000}) == want


def test_pods_that_ask_for_nothing_of_their_own() -> None:
    assert asked(LSR, {}, {"cpu": 0}) is None
    assert asked(LSR, "bad", {}) is None
    assert asked(LSR, {}, {"memory": 1}) == CpuBinding(0)
    assert asked({}, {}, {"cpu": 2500}) == CpuBinding(2)
    assert asked(LSR, {}, {"cpu": 2500}, priority=5500) == CpuBinding(2)
    assert asked(LSR | {names.LABEL_PRIORITY_CLASS: "koord-mid"}, {}, {"cpu": 2500}) == CpuBinding(2)
    assert asked(LSR | {names.LABEL_PRIORITY_CLASS: "what"}, {}, {"cpu": 2000}, priority=5500).bound


def test_a_pod_that_cannot_be_served_anywhere_hears_by_which_field() -> None:
    assert asked(LSR, {}, {"cpu": 2500}) == Problem(field="resources.requests[cpu]", message=NOT_INTEGER)
    assert asked({}, "bad", {"cpu": 1}).field == f"metadata.annotations[{names.ANNOTATION_RESOURCE_SPEC}]"


def test_a_policy_that_nobody_carries_out_is_refused_by_name() -> None:
    spec = read_resource_spec(note(names.ANNOTATION_RESOURCE_SPEC, {"requiredCPUBindPolicy": "ConstrainedBurst"}))
    assert not isinstance(spec, Problem)
    problem = unsupported_policy(spec)
    assert problem is not None
    assert problem.field.endswith("requiredCPUBindPolicy")
    assert unsupported_policy(read_resource_spec({})) is None  # type: ignore[arg-type]


ASKS = CpuBinding(2, True, "", "SpreadByPCPUs")
FULL_STATIC = CpuManager(STATIC, {"full-pcpus-only": "true"})


@pytest.mark.parametrize(
    ("binding", "milli", "label", "options", "want"),
    [
        (ASKS, 2000, "", {}, NodeBinding(2, "SpreadByPCPUs", False)),
        (CpuBinding(2), 2500, "", {}, NodeBinding()),
        (CpuBinding(2), 2000, "FullPCPUsOnly", {}, NodeBinding(2, "FullPCPUs", True)),
        (CpuBinding(0), 0, "FullPCPUsOnly", {}, NodeBinding()),
        (CpuBinding(2), 2500, "SpreadByPCPUs", {}, NodeBinding(reason=NOT_INTEGER)),
        (ASKS, 2000, "", {"layout": None}, NodeBinding(reason=NO_LAYOUT)),
        (CpuBinding(2), 2000, "", {"layout": None}, NodeBinding()),
        (ASKS._replace(required="SpreadByPCPUs"), 2000, "FullPCPUsOnly", {}, NodeBinding(reason=CONFLICT)),
        (CpuBinding(3, True, "", "FullPCPUs"), 3000, "", {}, NodeBinding(3, "FullPCPUs", False)),
        (CpuBinding(3, True, "FullPCPUs", "FullPCPUs"), 3000, "", {}, NodeBinding(reason=NOT_WHOLE_CORES)),
        (ASKS, 2000, "", {"kubelet": CpuManager(STATIC)}, NodeBinding(reason=KUBELET_GIVES)),
        (CpuBinding(2), 2000, "", {"kubelet": FULL_STATIC}, NodeBinding()),
        (
            CpuBinding(2),
            2000,
            "",
            {"kubelet": FULL_STATIC, "beside_kubelet": True},
            NodeBinding(2, "FullPCPUs", True),
        ),
        (ASKS, 2000, "", {"kubelet": CpuManager("none")}, NodeBinding(2, "SpreadByPCPUs", False)),
    ],
)
def test_what_a_pod_gets_on_a_node(
    binding: CpuBinding, milli: int, label: str, options: dict[str, Any], want: NodeBinding
) -> None:
    labels = {names.LABEL_CPU_BIND_POLICY: label}
    given: dict[str, Any] = {"kubelet": CpuManager(), "layout": LAYOUT} | options
    assert bind_on_node(binding, milli, labels=labels, **given) == want


@given(ids, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9_000)), max_size=3))
def test_a_record_survives_a_round_trip(cpus: frozenset[int], shares: list[tuple[int, int]]) -> None:
    zones = tuple(ZoneShare(zone, {"cpu": milli, "memory": milli << 20}) for zone, milli in shares)
    found = read_resource_status(note(names.ANNOTATION_RESOURCE_STATUS, format_resource_status(cpus, zones)))
    assert isinstance(found, ResourceStatus)
    assert (found.cpus, found.zones) == (cpus, zones)
