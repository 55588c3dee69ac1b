"""A mixed cluster: every vendor, two and four NUMA nodes, every shape of pods; and an API server takes it."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.state import NodeResourceTopology
from berth.resources.amounts import parse_amounts
from berth.rules.cpus.layout import CpuLayout, read_layout
from berth.rules.cpus.reserved import reserved_cpus
from berth.rules.device_request import device_requests
from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.generate.mixed import LABEL_SHAPE, MACHINES, SHAPES, MixedShape, generate_mixed
from berth.simcluster.manifests import load
from berth.vendors.registry import REGISTRY


@cache
def large() -> Any:
    """As many nodes and pods as it makes where nobody says how many."""
    return generate_mixed(MixedShape(), seed=3)


def of(kind: str, made: Any = None) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in (made or large()).cluster if each["kind"] == kind}


def test_the_same_seed_makes_the_same() -> None:
    small = MixedShape(nodes=20, pods=50)
    assert generate_mixed(small, seed=1) == generate_mixed(small, seed=1)
    assert generate_mixed(small, seed=1) != generate_mixed(small, seed=2)


@pytest.mark.parametrize(("shape", "field"), [(MixedShape(nodes=0), "nodes"), (MixedShape(pods=-1), "pods")])
def test_what_is_wrong_with_a_shape_is_named(shape: MixedShape, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        generate_mixed(shape)


def test_weights_are_of_a_thousand() -> None:
    assert sum(each.weight for each in MACHINES) == 1000
    assert sum(each.weight for each in SHAPES) == 1000


def test_there_are_devices_of_every_vendor() -> None:
    found = set()
    for device in of("Device").values():
        vendor = device["metadata"]["labels"].get(names.LABEL_GPU_VENDOR, "")
        found |= {REGISTRY.of(each["type"], vendor) for each in device["spec"]["devices"]}
    assert found == set(REGISTRY)


def test_devices_are_distinct_and_lie_on_numa_nodes_of_their_machine() -> None:
    topologies = of("NodeResourceTopology")
    for name, device in of("Device").items():
        listed = device["spec"]["devices"]
        for key in ("id", "topology"):
            values = [each[key] if key == "id" else each[key]["busID"] for each in listed]
            assert len(set(values)) == len(values), name
        functions = [vf["busID"] for each in listed for group in each.get("vfGroups", []) for vf in group["vfs"]]
        assert len(set(functions)) == len(functions)
        zones = {int(zone["name"].removeprefix("node-")) for zone in topologies[name]["zones"]}
        assert {each["topology"]["nodeID"] for each in listed} <= zones
        cards = [each for each in listed if each["type"] == "gpu"]
        if len(cards) >= len(zones):
            assert {each["topology"]["nodeID"] for each in cards} == zones
        nics = {each["topology"]["pcieID"] for each in listed if each["type"] == "rdma"}
        assert not cards or nics <= {each["topology"]["pcieID"] for each in cards}


def test_the_rules_read_every_topology() -> None:
    counts: Counter[int] = Counter()
    nodes = of("Node")
    for name, each in of("NodeResourceTopology").items():
        seen = NodeResourceTopology(name=name, version=1, annotations=each["metadata"]["annotations"])
        layout = read_layout(seen.annotations)
        assert isinstance(layout, CpuLayout)
        assert reserved_cpus(seen.annotations).problems == ()
        zones = {int(zone["name"].removeprefix("node-")): zone for zone in each["zones"]}
        assert set(layout.zones) == set(zones)
        offered = sum(int(zone["resources"][0]["allocatable"]) for zone in zones.values())
        assert offered == len(layout.cpus) == int(nodes[name]["status"]["allocatable"]["cpu"].removesuffix("m")) // 1000
        counts[len(zones)] += 1
    assert set(counts) == {2, 4}
    assert min(counts.values()) > 100


def test_pods_are_as_many_as_asked_for_and_of_every_shape() -> None:
    assert len(large().pods) == 10_000
    assert len({pod["metadata"]["name"] for pod in large().pods}) == 10_000
    counts = Counter(pod["metadata"]["labels"][LABEL_SHAPE] for pod in large().pods)
    assert counts == {shape.name: 10 * shape.weight for shape in SHAPES}


def test_every_request_for_devices_is_one_that_is_accepted() -> None:
    kinds = set()
    for pod in large().pods:
        amounts, problems = parse_amounts(pod["spec"]["containers"][0]["resources"]["requests"], "requests")
        assert problems == []
        asked = device_requests(amounts)
        assert not isinstance(asked, Problem), (pod["metadata"]["labels"], asked)
        kinds |= asked.keys()
    assert kinds == {"gpu", "rdma", "fpga"}


def test_who_selects_machines_finds_some() -> None:
    nodes = [each["metadata"]["labels"] for each in of("Node").values()]
    for pod in large().pods:
        selector = pod["spec"].get("nodeSelector", {})
        assert any(selector.items() <= labels.items() for labels in nodes)


def test_gangs_are_whole_and_reservations_have_their_owner() -> None:
    groups = {each["metadata"]["name"]: each for each in large().ahead if each["kind"] == "PodGroup"}
    reservations = {each["metadata"]["name"] for each in large().ahead if each["kind"] == "Reservation"}
    members = Counter(pod["metadata"]["labels"].get("pod-group.scheduling.sigs.k8s.io") for pod in large().pods)
    assert {name: each["spec"]["minMember"] for name, each in groups.items()} == {
        name: count for name, count in members.items() if name
    }
    owners = {pod["metadata"]["labels"].get("sim.berth.sh/reservation") for pod in large().pods} - {None}
    assert owners == reservations
    assert len(groups) > 10
    assert len(owners) > 10


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 5))
def test_any_size_is_met_exactly(nodes: int, pods: int, seed: int) -> None:
    made = generate_mixed(MixedShape(nodes=nodes, pods=pods), seed=seed)
    assert (len(of("Node", made)), len(of("NodeResourceTopology", made)), len(made.pods)) == (nodes, nodes, pods)


def test_an_api_server_takes_all_of_it() -> None:
    cluster = SimCluster(SimSettings(kubelet=None))
    made = generate_mixed(MixedShape(nodes=60, pods=200))
    assert load(cluster.store, [*made.cluster, *made.ahead, *made.pods]) == len(
        [*made.cluster, *made.ahead, *made.pods]
    )
    text = json.dumps(made.cluster)
    assert "Ascend-910B3" in text
