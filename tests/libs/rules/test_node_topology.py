"""What is counted of a NodeResourceTopology, and what in it is refused by the name of its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.state import NodeResourceTopology
from berth.contracts.topology import CoreCpus, NodeTopology, PinnedPod, ZoneCapacity
from berth.rules.cpus.node_topology import ZONES_MAX, topology_of

GI = 1 << 30


def detail(*cpus: tuple[int, int, int, int]) -> str:
    """CPUs as (id, core, socket, zone)."""
    return json.dumps({"detail": [dict(zip(("id", "core", "socket", "node"), each, strict=True)) for each in cpus]})


FOUR = detail((0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 0, 2), (3, 1, 0, 2))


def zone(number: int, cpu: str = "2", **resources: str) -> dict[str, Any]:
    offered = {"cpu": cpu, **{name.replace("_", "-"): text for name, text in resources.items()}}
    listed = [
        {"name": name, "capacity": text, "allocatable": text, "available": text} for name, text in offered.items()
    ]
    return {"name": f"node-{number}", "type": "Node", "resources": listed}


def report(annotations: dict[str, str] | None = None, **fields: Any) -> NodeResourceTopology:
    found = {names.ANNOTATION_CPU_TOPOLOGY: FOUR, **(annotations or {})}
    return NodeResourceTopology(
        **{"name": "n", "version": 7, "annotations": found, "zones": [zone(0), zone(2, memory="4Gi")]} | fields
    )


def test_cores_zones_and_policies_are_counted() -> None:
    manager = json.dumps({"policy": "static", "options": {"full-pcpus-only": "true"}, "reservedCPUs": "0"})
    found = topology_of(
        report({names.ANNOTATION_CPU_MANAGER_POLICY: manager}, policies=["SingleNUMANodeContainerLevel"])
    )
    assert found == NodeTopology(
        node="n",
        version=7,
        cores=[CoreCpus(cpus=[0, 1]), CoreCpus(zone=2, cpus=[2, 3])],
        zones=[
            ZoneCapacity(zone=0, amounts={names.CPU: 1000}),
            ZoneCapacity(zone=2, amounts={names.CPU: 2000, names.MEMORY: 4 * GI}),
        ],
        reserved=[0],
        cpu_manager="static",
        full_cores=True,
        policy="SingleNUMANode",
    )
    assert decode(encode(found), NodeTopology) == found


def test_whatever_keeps_cpus_from_pods_is_reserved() -> None:
    held = {
        names.ANNOTATION_POD_CPU_ALLOCS: '[{"uid":"u","namespace":"x","name":"y","cpuset":"1","managedByKubelet":true},'
        '{"uid":"v","cpuset":"3"}]',
        names.ANNOTATION_NODE_RESERVATION: '{"reservedCPUs":"2"}',
    }
    found = topology_of(report(held))
    assert found.reserved == [1, 2]
    assert found.pinned == [PinnedPod(uid="u", namespace="x", name="y", cpus="1")]
    assert [each.amounts[names.CPU] for each in found.zones] == [1000, 1000]
    by_number = {names.ANNOTATION_NODE_RESERVATION: '{"resources":{"cpu":"2"}}'}
    assert topology_of(report(by_number)).reserved == [0, 1]
    system = {names.ANNOTATION_NODE_SYSTEM_QOS: '{"cpuset":"0-3"}'}
    assert topology_of(report(system)).reserved == [0, 1, 2, 3]
    assert [each.amounts[names.CPU] for each in topology_of(report(system)).zones] == [0, 0]


def test_sparse_zones_and_uneven_cores_are_counted() -> None:
    uneven = detail((0, 0, 0, 5), (1, 0, 0, 5), (9, 7, 1, 900))
    found = topology_of(report({names.ANNOTATION_CPU_TOPOLOGY: uneven}, zones=[zone(5), zone(900, "1")]))
    assert found.problems == []
    assert found.cores == [CoreCpus(zone=5, cpus=[0, 1]), CoreCpus(zone=900, socket=1, cpus=[9])]


@pytest.mark.parametrize(
    ("given_", "field"),
    [
        ({"annotations": {names.ANNOTATION_CPU_TOPOLOGY: "[]"}}, names.ANNOTATION_CPU_TOPOLOGY),
        ({"annotations": {names.ANNOTATION_CPU_TOPOLOGY: detail((0, 0, 0, 0), (0, 1, 0, 0))}}, "cpu-topology"),
        ({"annotations": {names.ANNOTATION_CPU_TOPOLOGY: detail((99_999_999, 0, 0, 0))}}, "cpu-topology"),
        ({"annotations": {names.ANNOTATION_CPU_MANAGER_POLICY: '{"reservedCPUs":"0-99999999"}'}}, "reservedCPUs"),
        ({"annotations": {names.ANNOTATION_NODE_SYSTEM_QOS: '{"cpuset":"0-99999999"}'}}, "system-qos-resource"),
        ({"annotations": {names.ANNOTATION_NODE_RESERVATION: '{"reservedCPUs":"x"}'}}, "reservedCPUs"),
        ({"annotations": {names.ANNOTATION_POD_CPU_ALLOCS: '[{"uid":1}]'}}, "pod-cpu-allocs"),
        ({"zones": [zone(0, "many")]}, "zones[0].resources[cpu]"),
        ({"zones": [zone(0), zone(0)]}, "zones[1].name"),
        ({"zones": [{"name": "node-0", "type": "Node", "resources": 3}]}, "zones[0]"),
        ({"zones": [zone(number) for number in range(ZONES_MAX + 2)]}, "zones"),
    ],
)
def test_a_fault_is_named_and_the_node_is_without_topology(given_: dict[str, Any], field: str) -> None:
    annotations = {names.ANNOTATION_CPU_TOPOLOGY: FOUR, **given_.get("annotations", {})}
    found = topology_of(report(**given_ | {"annotations": annotations}))
    assert [field in problem.field for problem in found.problems] == [True]
    assert (found.cores, found.zones, found.reserved) == ([], [], [])


def test_a_policy_or_ratio_that_nobody_knows_is_none_and_told() -> None:
    odd = report({names.ANNOTATION_AMPLIFICATION_RATIO: "much"}, policies=["Sometimes"])
    found = topology_of(odd)
    assert (found.policy, found.cpu_ratio, len(found.cores)) == ("", 0.0, 2)
    assert [problem.field for problem in found.problems] == [
        "topologyPolicies[0]",
        f"metadata.annotations[{names.ANNOTATION_AMPLIFICATION_RATIO}]",
    ]
    assert topology_of(report(policies=["None"])).problems == []


def test_zones_of_others_are_not_looked_at() -> None:
    others = [{"name": "node-0", "type": "Socket", "resources": 3}, {"name": "gpu-0", "type": "Node"}, {}]
    found = topology_of(report(zones=[*others, zone(2, nvidia_com_gpu="4")]))
    assert (found.zones, found.problems) == ([ZoneCapacity(zone=2, amounts={names.CPU: 2000})], [])


@given(
    annotations=st.dictionaries(
        st.sampled_from(
            [
                names.ANNOTATION_CPU_TOPOLOGY,
                names.ANNOTATION_CPU_MANAGER_POLICY,
                names.ANNOTATION_POD_CPU_ALLOCS,
                names.ANNOTATION_NODE_RESERVATION,
                names.ANNOTATION_NODE_SYSTEM_QOS,
                names.ANNOTATION_AMPLIFICATION_RATIO,
            ]
        ),
        st.one_of(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)),
    ),
    zones=st.lists(
        st.dictionaries(
            st.sampled_from(["name", "type", "resources"]),
            st.sampled_from(
                ["node-0", "node-1", "Node", None, [], [{"name": "cpu"}], [{"name": "cpu", "allocatable": -1}]]
            ),
        ),
        max_size=4,
    ),
    policies=st.lists(st.text(), max_size=2),
)
def test_nothing_that_is_written_raises(
    annotations: dict[str, str], zones: list[dict[str, Any]], policies: list[str]
) -> None:
    found = topology_of(
        NodeResourceTopology(name="n", version=1, annotations=annotations, zones=zones, policies=policies)
    )
    assert decode(encode(found), NodeTopology) == found
