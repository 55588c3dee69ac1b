"""Reference cases of everything about CPUs but the choice among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, format_amounts, parse_amounts
from berth.resources.quantity import parse_milli
from berth.rules.cpus.bind_policy import (
    CpuBinding,
    bind_on_node,
    cpu_binding,
    effective_policy,
    format_resource_spec,
    node_bind_policy,
    read_resource_spec,
    with_resolved_policy,
)
from berth.rules.cpus.container_cpuset import container_cpuset
from berth.rules.cpus.cpuset import format_cpuset, read_cpuset
from berth.rules.cpus.kubelet import (
    STATIC,
    Checkpoint,
    CpuManager,
    NodePod,
    format_pod_cpu_allocs,
    kubelet_allocations,
    read_checkpoint,
    read_cpu_manager,
    reported_topology_policy,
)
from berth.rules.cpus.layout import Cpu, CpuLayout, read_layout
from berth.rules.cpus.node_reservation import cpus_of, read_node_reservation, trimmed
from berth.rules.cpus.qos import (
    BEST_EFFORT,
    ContainerSize,
    kube_qos_class,
    priority_class,
    priority_class_or_default,
    qos_class,
)
from berth.rules.cpus.reserved import reserved_cpus, zone_cpu_milli
from berth.rules.cpus.resource_status import read_resource_status
from berth.rules.cpus.shared_pools import Pool, SharedPools, format_pools, shared_pools, without
from berth.rules.cpus.system_qos import SystemCpus, read_system_cpus
from berth.rules.cpus.zone_reservation import zone_allocatable, zone_part
from berth.testing.vectors import cases


def read(amounts: Any) -> Amounts:
    return parse_amounts(amounts, "amounts")[0]


def cpus(text: str) -> frozenset[int]:
    found = read_cpuset(text, "case")
    assert not isinstance(found, Problem)
    return found


def noted(name: str, content: Any) -> dict[str, str]:
    """An annotation; None: it is not there."""
    if content is None:
        return {}
    return {name: content if isinstance(content, str) else json.dumps(content)}


def system_cpus(content: Any) -> SystemCpus:
    found = read_system_cpus(noted(names.ANNOTATION_NODE_SYSTEM_QOS, content))
    assert not isinstance(found, Problem)
    return found


def pools_of(shared: Any, best_effort: Any = None) -> SharedPools:
    return SharedPools(
        *(
            tuple(Pool(each["socket"], each["node"], cpus(each["cpuset"])) for each in listed or ())
            for listed in (shared, best_effort)
        )
    )


def written(pools: Iterable[Pool]) -> Any:
    return json.loads(format_pools(pools))


# --- classes and bind policy ------------------------------------------------------------------------------------------


def sizes_of(pod: Mapping[str, Any]) -> list[ContainerSize]:
    return [ContainerSize(read(each.get("requests")), read(each.get("limits"))) for each in pod["containers"]]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/qos_priority"))
def test_qos_and_priority(case: dict[str, Any]) -> None:
    pod = case["given"]["pod"]
    labels, priority = pod.get("labels", {}), pod.get("priority")
    assert {
        "rawClass": priority_class(labels, priority),
        "classWithDefault": priority_class_or_default(labels, priority, kube_qos_class(sizes_of(pod))),
        "rawQoS": qos_class(labels),
    } == case["expect"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_bind_decision"))
def test_bind_decision(case: dict[str, Any]) -> None:
    pod, expect = case["given"]["pod"], case["expect"]
    requests: Amounts = {}
    for size in sizes_of(pod):
        requests |= {name: requests.get(name, 0) + amount for name, amount in size.requests.items()}
    binding = cpu_binding(
        pod.get("labels", {}),
        pod.get("annotations", {}),
        pod.get("priority"),
        requests,
        default=case["given"]["defaultCPUBindPolicy"],
    )
    if "error" in expect:
        assert isinstance(binding, Problem)
        assert binding.message == expect["error"]
        return
    assert not isinstance(binding, Problem)
    assert (binding is None) is expect["skip"]
    if binding is not None:
        assert (binding.bound, binding.required, binding.preferred, binding.number) == (
            expect["cpuBind"],
            expect["required"],
            expect["preferred"],
            expect["numCPUs"],
        )


def even(threads: int) -> CpuLayout:
    return CpuLayout(Cpu(cpu, cpu // threads, 0, 0) for cpu in range(32 * threads))


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_bind_node_policy"))
def test_bind_policy_of_a_node(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    labels = {names.LABEL_CPU_BIND_POLICY: given["nodeLabel"]}
    kubelet = read_cpu_manager(noted(names.ANNOTATION_CPU_MANAGER_POLICY, given["kubelet"]))
    assert isinstance(kubelet, CpuManager)
    required, preferred = given["podRequired"], given["podPreferred"]
    if "policy" in expect:
        answer = effective_policy(node_bind_policy(labels, kubelet), required, preferred)
        assert answer == (expect["policy"], expect["required"])
        return
    milli = parse_milli(given["cpu"])
    found = bind_on_node(
        CpuBinding(milli // 1000, given["podCpuBind"], required, preferred),
        milli,
        labels=labels,
        kubelet=kubelet,
        layout=even(given["cpusPerCore"]),
        beside_kubelet=True,
    )
    assert (not found.reason, found.reason) == (expect["ok"], expect.get("reason", ""))


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/resource_spec_writeback"))
def test_resource_spec_writeback(case: dict[str, Any]) -> None:
    given = case["given"]
    spec = read_resource_spec(noted(names.ANNOTATION_RESOURCE_SPEC, given["resourceSpec"]))
    assert not isinstance(spec, Problem)
    node_policy = node_bind_policy({names.LABEL_CPU_BIND_POLICY: given["nodeLabel"]}, CpuManager())
    policy, required = effective_policy(node_policy, given["required"], given["preferred"])
    after = format_resource_spec(with_resolved_policy(spec, policy, required=required))
    assert json.loads(after) == case["expect"]["resourceSpec"]


# --- what is held back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/node_reservation_cpus"))
def test_cpus_of_a_node_reservation(case: dict[str, Any]) -> None:
    found, _ = read_node_reservation(noted(names.ANNOTATION_NODE_RESERVATION, case["given"]["reservation"]))
    assert {"reservedCPUs": found.listed, "count": found.number} == case["expect"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/node_reservation_amount"))
def test_amounts_of_a_node_reservation(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    found, problem = read_node_reservation(noted(names.ANNOTATION_NODE_RESERVATION, given["reservation"]))
    assert problem is None
    if given["op"] == "amount":
        assert (format_amounts(found.amounts) or None) == expect["resources"]
        return
    allocatable = read(given["allocatable"])
    left = trimmed(allocatable, found)
    assert (left != allocatable) is expect["trimmed"]
    if "allocatable" in expect:
        assert left == read(expect["allocatable"])


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/node_reservation_choice"))
def test_choice_of_a_node_reservation(case: dict[str, Any]) -> None:
    detail = [
        {"id": row["cpu"], "core": row["core"], "socket": row["socket"], "node": row["numa"]}
        for row in case["given"]["topology"]
    ]
    layout = read_layout(noted(names.ANNOTATION_CPU_TOPOLOGY, {"detail": detail}))
    assert isinstance(layout, CpuLayout)
    found, _ = read_node_reservation(noted(names.ANNOTATION_NODE_RESERVATION, case["given"]["reservation"]))
    assert format_cpuset(cpus_of(found, layout)) == case["expect"]["reservedCPUs"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/nrt_reserved_cpus"))
def test_reserved_cpus_of_a_topology(case: dict[str, Any]) -> None:
    given = case["given"]
    notes = {
        **noted(names.ANNOTATION_CPU_MANAGER_POLICY, {"policy": STATIC, "reservedCPUs": given["kubeletReserved"]}),
        **noted(names.ANNOTATION_POD_CPU_ALLOCS, given.get("podAllocs")),
        **noted(names.ANNOTATION_NODE_SYSTEM_QOS, given.get("systemQOS")),
        **noted(names.ANNOTATION_NODE_RESERVATION, {"reservedCPUs": given["nodeReservation"]}),
    }
    reserved, problems, _ = reserved_cpus(notes)
    assert not problems
    assert format_cpuset(reserved) == case["expect"]["reserved"]
    milli = {zone["id"]: zone["cpuMilli"] for zone in given["numa"]}
    left = zone_cpu_milli(milli, {zone["id"]: cpus(zone["cpuset"]) for zone in given["numa"]}, reserved)
    assert {str(zone): amount for zone, amount in left.items()} == case["expect"]["numaCpuMilli"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/nrt_numa_reservation"))
def test_reservation_of_zones(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    if given["op"] == "divide":
        assert zone_part(parse_milli(given["quantity"]), given["count"]) == expect["milli"]
        return
    reserved = {name: parse_milli(amount) for name, amount in given["nodeReserved"].items()}
    left = {
        zone: zone_allocatable(
            {name: parse_milli(amount) for name, amount in of["allocatable"].items()}, reserved, given["numaCount"]
        )
        for zone, of in given["zones"].items()
    }
    assert left == expect["allocatableMilli"]


# --- kubelet and pools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/kubelet_topology_policy"))
def test_reported_policy(case: dict[str, Any]) -> None:
    given = case["given"]
    assert reported_topology_policy(given["kubeletPolicy"], given["kubeletScope"]) == case["expect"]["reported"]


def checkpoint_of(policy: str, entries: Any) -> Checkpoint:
    found = read_checkpoint(json.dumps({"policyName": policy, "defaultCpuSet": "", "entries": entries, "checksum": 1}))
    assert not isinstance(found, Problem)
    return found


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/nrt_kubelet_allocs"))
def test_allocations_of_kubelet(case: dict[str, Any]) -> None:
    pods = []
    for uid, pod in case["given"]["pods"].items():
        status = read_resource_status(noted(names.ANNOTATION_RESOURCE_STATUS, pod.get("resourceStatus")))
        assert not isinstance(status, Problem)
        pods.append(NodePod(uid, pod.get("qos", ""), status.cpus, pod["namespace"], pod["name"]))
    found = kubelet_allocations(checkpoint_of(STATIC, case["given"]["entries"]), pods)
    assert (json.loads(format_pod_cpu_allocs(found)) or []) == case["expect"]["allocs"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/nrt_shared_pools"))
def test_pools_after_removal(case: dict[str, Any]) -> None:
    given = case["given"]
    taken = system_cpus(given["systemQOS"]).kept.union(*(cpus(each) for each in given["removed"]))
    assert written(without(pools_of(given["pools"]).shared, taken)) == case["expect"]["pools"]


@pytest.mark.parametrize("case", cases("node-qos/cpu-share-pools"))
def test_shared_pools(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    pods = [NodePod(pod["uid"], pod["qos"], cpus(pod["cpuset"])) for pod in given["pods"]]
    checkpoint = checkpoint_of(given.get("kubelet_policy", ""), given.get("kubelet_entries", {}))
    allocations = kubelet_allocations(checkpoint, pods)
    pools = shared_pools(
        CpuLayout(Cpu(*row) for row in given["processors"]),
        kubelet=allocations,
        pods=pods,
        reserved=cpus(given.get("reserved_cpus", "")),
        system=system_cpus(given.get("system_qos")).kept,
    )
    assert written(pools.shared) == expect["pools"]
    assert written(pools.best_effort) == expect["be_pools"]
    found = [{"uid": each.uid, "cpuset": format_cpuset(each.cpus)} for each in allocations]
    assert found == expect["kubelet_allocations"]


# --- containers -------------------------------------------------------------------------------------------------------


def cpuset_of(record: str | None, pools: SharedPools, **options: Any) -> str | Problem | None:
    status = read_resource_status(noted(names.ANNOTATION_RESOURCE_STATUS, record))
    return status if isinstance(status, Problem) else container_cpuset(status, pools, **options)


def compare(found: str | Problem | None, expect: Mapping[str, Any]) -> None:
    assert isinstance(found, Problem) is expect.get("error", False)
    if not isinstance(found, Problem):
        assert found == expect["cpuset"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/container_cpuset"))
def test_cpus_of_a_container(case: dict[str, Any]) -> None:
    given = case["given"]
    allocation = given["numaAllocation"]
    record = allocation if allocation is None or isinstance(allocation, str) else {"numaNodeResources": allocation}
    found = cpuset_of(
        record if record is None or isinstance(record, str) else json.dumps(record),
        pools_of(given["pools"], given["bePools"]),
        qos=qos_class({names.LABEL_QOS: given["qos"]}),
        in_best_effort_group=given["kubeQoS"].lower() == BEST_EFFORT.lower(),
        system=cpus(given["systemCPUs"]),
        kubelet_static=given["kubeletPolicy"] == STATIC,
        best_effort_by_zone=given["beCPUManager"],
    )
    compare(found, case["expect"])


@pytest.mark.parametrize("case", cases("node-qos/cpuset-hook"))
def test_cpus_by_the_hook(case: dict[str, Any]) -> None:
    given = case["given"]
    found = cpuset_of(
        given.get("resource_status"),
        pools_of(given["pools"], given.get("be_pools")),
        qos=qos_class({names.LABEL_QOS: given["qos"]}),
        in_best_effort_group="besteffort" in given["cgroup_parent"],
        system=cpus(given.get("system_cpuset", "")),
        kubelet_static=given.get("kubelet_policy") == STATIC,
        best_effort_by_zone=given.get("be_cpu_manager", False),
    )
    compare(found, case["expect"])
