"""The NodeResourceTopology that a report, a node and its pods make: what readers of the protocol find in it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec.structs import replace

from berth.cluster_watcher.core.topologies import topology_of as seen_of
from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.contracts.command import MANAGER
from berth.contracts.node_report import (
    HeldByContainer,
    NodeReport,
    PinnedCpus,
    ReportedCore,
    ReportedCpu,
    ReportedKubelet,
    ReportedZone,
)
from berth.contracts.state import Node, NodeResourceTopology, Pod, PodTemplate
from berth.device_inventory.core.topology_object import (
    TopologyObject,
    depends_on,
    is_ours,
    pinned_pod,
    shows,
    topology_object,
)
from berth.rules.cpus.cpuset import read_cpuset
from berth.rules.cpus.kubelet import NodePod
from berth.rules.cpus.node_topology import topology_of

GI = 1 << 30
CORES = [
    ReportedCore(socket=core // 4, core=core % 4, zone=core // 4 * 2, cpus=f"{2 * core}-{2 * core + 1}")
    for core in range(8)
]
ZONES = [ReportedZone(zone=zone, memory=8 * GI, hugepages={"hugepages-1Gi": GI}, distances=[10, 21]) for zone in (0, 2)]
KUBELET = ReportedKubelet(
    cpu_manager="static",
    cpu_manager_options={"full-pcpus-only": "true"},
    reserved_cpus="0-1",
    topology_manager="single-numa-node",
    topology_scope="pod",
    pinned=[PinnedCpus(uid="u1", cpus="2-3"), PinnedCpus(uid="u2", cpus="4-5"), PinnedCpus(uid="gone", cpus="6-7")],
)
REPORT = NodeReport(
    node="n",
    version=1,
    parts={"cpus": 1, "kubelet": 1},
    cores=CORES,
    zones=ZONES,
    cpu=ReportedCpu(model="EPYC", vendor="AuthenticAMD", hyper_threads=True, l3_mask="ff"),
    kubelet=KUBELET,
)
NODE = Node(
    name="n",
    uid="u",
    version=1,
    capacity={"cpu": 16_000, "memory": 16 * GI},
    allocatable={"cpu": 14_000, "memory": 14 * GI},
)
PODS = [
    NodePod("u1", "LSR", namespace="a", name="p"),
    NodePod("u2", "LS", namespace="a", name="q"),
    NodePod("u3", "LSE", frozenset({14, 15})),
]


def made(report: NodeReport = REPORT, node: Node = NODE, pods: list[NodePod] = PODS) -> TopologyObject:
    found = topology_object(report, node, pods)
    assert isinstance(found, TopologyObject)
    return found


def seen(wanted: TopologyObject, **metadata: Any) -> NodeResourceTopology:
    """What STATE shows once the API server has it."""
    meta = {
        "name": "n",
        "uid": "t",
        "labels": {names.LABEL_MANAGED_BY: MANAGER},
        "annotations": wanted.annotations,
        **metadata,
    }
    return seen_of(
        msgspec.json.decode(json.dumps({"metadata": meta, **wanted.fields}), type=kube.NodeResourceTopology), 3
    )


def test_what_is_made_comes_back_as_topology() -> None:
    read = topology_of(seen(made()))
    assert read.problems == []
    assert [(core.socket, core.zone, core.cpus) for core in read.cores] == [
        (core // 4, core // 4 * 2, [2 * core, 2 * core + 1]) for core in range(8)
    ]
    assert (read.cpu_manager, read.full_cores, read.policy) == ("static", True, "SingleNUMANode")
    assert read.reserved == [0, 1, 2, 3, 6, 7], "kubelet's own and its pins, but not those of a pod of class LS"
    assert [(zone.zone, zone.amounts[names.MEMORY], zone.amounts["hugepages-1Gi"]) for zone in read.zones] == [
        (zone, 7 * GI, GI) for zone in (0, 2)
    ]
    assert [zone.amounts[names.CPU] for zone in read.zones] == [2_000, 8_000]


def test_the_api_server_takes_it() -> None:
    path = files("berth.contracts") / "crds" / "noderesourcetopologies.topology.node.k8s.io.json"
    schema = json.loads(path.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    jsonschema_rs.validate(schema, made().fields)
    assert made().fields["zones"][1]["costs"] == [{"name": "node-0", "value": 10}, {"name": "node-2", "value": 21}]


def pools_of(report: NodeResourceTopology) -> list[tuple[int, int, list[int]]]:
    """Socket, zone and CPUs of each pool that services and batch share."""
    found = []
    for each in json.loads(report.annotations[names.ANNOTATION_CPU_SHARED_POOLS]):
        cpus = read_cpuset(each["cpuset"], "cpuset")
        assert not isinstance(cpus, Problem)
        found.append((each["socket"], each["node"], sorted(cpus)))
    return found


def test_shared_pools_are_what_nobody_has_for_himself() -> None:
    assert pools_of(seen(made())) == [
        (0, 0, [0, 1, 4, 5]),
        (1, 2, [8, 9, 10, 11, 12, 13]),
    ]


def test_the_nodes_annotations_are_copied_and_numbers_become_lists() -> None:
    node = replace(
        NODE,
        annotations={
            names.ANNOTATION_NODE_RESERVATION: '{"resources":{"cpu":"2"},"applyPolicy":"ReservedCPUsOnly"}',
            names.ANNOTATION_NODE_SYSTEM_QOS: '{"cpuset":"8-9"}',
        },
    )
    annotations = made(node=node).annotations
    assert json.loads(annotations[names.ANNOTATION_NODE_RESERVATION])["reservedCPUs"] == "0-1"
    assert annotations[names.ANNOTATION_NODE_SYSTEM_QOS] == '{"cpuset":"8-9"}'
    assert {8, 9} <= set(topology_of(seen(made(node=node))).reserved)
    torn = replace(NODE, annotations={names.ANNOTATION_NODE_RESERVATION: "{"})
    assert topology_of(seen(made(node=torn))).problems, "whoever reads it sees that it cannot be read"


def test_kubelets_reservation_is_spread_where_the_node_says_so() -> None:
    spread = made(node=replace(NODE, labels={names.LABEL_NUMA_RESERVATION: "true"})).fields["zones"][0]["resources"]
    assert [(each["name"], each["capacity"], each["allocatable"]) for each in spread] == [
        ("cpu", "8", "7"),
        ("hugepages-1Gi", "1Gi", "1Gi"),
        ("memory", "7Gi", "6Gi"),
    ]


def test_what_podresources_say_is_kept_out_of_pools_and_of_what_is_free() -> None:
    """Without its checkpoint kubelet says by name who has which CPUs, and so that it gives them out."""
    held = [
        HeldByContainer(namespace="a", pod=name, container="c", cpus=cpus) for name, cpus in (("p", "2-3"), ("x", "9"))
    ]
    bare = seen(made(replace(REPORT, kubelet=None, held=held)))
    free = {cpu for _, _, cpus in pools_of(bare) for cpu in cpus}
    assert free == set(range(16)) - {2, 3, 9, 14, 15}
    topology = topology_of(bare)
    assert {2, 3, 9} <= set(topology.reserved)
    assert topology.cpu_manager == "static", "so that pods with CPUs of their own are refused by name"
    assert made(replace(REPORT, held=held)).annotations != made().annotations
    both = NodePod("u1", "LSR", namespace="a", name="p")
    assert depends_on(replace(REPORT, kubelet=None, held=held), NODE, [both]) != depends_on(
        replace(REPORT, kubelet=None), NODE, [both]
    )


@pytest.mark.parametrize("cpus", ["0-99999999", "x", "3-1"])
def test_cpus_that_cannot_be_are_refused_by_name(cpus: str) -> None:
    pinned = replace(KUBELET, pinned=[PinnedCpus(uid="u", cpus=cpus)])
    for report, field in (
        (replace(REPORT, kubelet=pinned), "kubelet.pinned[0].cpus"),
        (replace(REPORT, held=[HeldByContainer(namespace="a", pod="p", container="c", cpus=cpus)]), "held[0].cpus"),
    ):
        found = topology_object(report, NODE, PODS)
        assert isinstance(found, Problem)
        assert found.field == field


def test_without_kubelets_words_there_is_no_policy() -> None:
    bare = made(replace(REPORT, kubelet=None))
    assert bare.fields["topologyPolicies"] == ["None"]
    assert names.ANNOTATION_CPU_MANAGER_POLICY not in bare.annotations
    assert bare.annotations[names.ANNOTATION_POD_CPU_ALLOCS] == "null"


def test_cpus_that_nobody_looks_at_make_no_object() -> None:
    assert topology_object(replace(REPORT, parts={}), NODE, []) is None
    assert topology_object(replace(REPORT, cores=[]), NODE, []) is None


@pytest.mark.parametrize(
    ("cores", "field"),
    [
        ([replace(CORES[0], cpus="0-99999999")], "cores[0].cpus"),
        ([replace(CORES[0], cpus="")], "cores[0].cpus"),
        ([CORES[0], replace(CORES[1], cpus="1")], "cores[1].cpus"),
        ([CORES[0], replace(CORES[0], cpus="4")], "cores[1]"),
        ([replace(CORES[0], socket=-1)], "cores[0]"),
        ([ReportedCore(socket=0, core=n, zone=0, cpus=str(n)) for n in range(8_000)], "cores"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_by_name(cores: list[ReportedCore], field: str) -> None:
    found = topology_object(replace(REPORT, cores=cores), NODE, [])
    assert isinstance(found, Problem)
    assert found.field == field


def test_an_object_is_shown_when_it_says_the_same() -> None:
    wanted = made()
    assert shows(seen(wanted), wanted)
    assert shows(seen(wanted, annotations={**wanted.annotations, "node.koordinator.sh/other": "x"}), wanted)
    reserved = {**wanted.annotations, names.ANNOTATION_NODE_RESERVATION: "{}"}
    assert not shows(seen(wanted, annotations=reserved), wanted), "one that has to go again"
    assert not shows(seen(wanted._replace(fields={**wanted.fields, "topologyPolicies": ["Restricted"]})), wanted)
    assert not shows(seen(made(pods=PODS[:2])), wanted)
    assert is_ours(seen(wanted))
    assert not is_ours(seen(wanted, labels={names.LABEL_MANAGED_BY: "Koordinator"}))


def test_what_it_depends_on_says_when_it_is_made_anew() -> None:
    key = depends_on(REPORT, NODE, PODS)
    assert depends_on(REPORT, replace(NODE, version=9, allocatable={}), [*PODS, NodePod("u9", "LS")]) == key
    assert depends_on(REPORT, NODE, PODS[:2]) != key
    assert depends_on(REPORT, NODE, [PODS[0]._replace(qos="LS"), *PODS[1:]]) != key
    spread = replace(NODE, labels={names.LABEL_NUMA_RESERVATION: "true"})
    assert depends_on(REPORT, spread, PODS) != depends_on(REPORT, replace(spread, allocatable={}), PODS)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_has_cpus_from_its_bind_to_its_end(phase: str) -> None:
    template = PodTemplate(
        labels={names.LABEL_QOS: "LSR"}, annotations={names.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-3"}'}
    )
    pod = Pod(namespace="a", name="p", uid="u", version=1, template=template, node="n", phase="Running")
    assert pinned_pod(pod) == NodePod("u", "LSR", frozenset(range(4)), "a", "p")
    assert pinned_pod(replace(pod, node="")) is None
    assert pinned_pod(replace(pod, phase=phase)) is None
