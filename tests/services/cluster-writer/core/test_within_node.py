"""Laws of what lies within a node, before a bind; and nothing is withdrawn for them that the verifier lets pass."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.writer.objects import device_of

from berth.cluster_writer.core.within_node import Place, broken_law
from berth.contracts import names
from berth.contracts.grants import CPU, OWN_ROOT, ZONE, device, one
from berth.contracts.ledger import Grant
from berth.contracts.state import Device, DeviceInfo, DeviceTopology, Node, PodTemplate
from berth.contracts.topology import CoreCpus, NodeTopology, ZoneCapacity
from berth.placement_solver.core.verify.laws.cores import zones_beyond
from berth.transaction.claims import Claim

NODE = Node(name="n", uid="n", version=1)
TWICE = Node(
    name="n", uid="n", version=1, annotations={"node.koordinator.sh/resource-amplification-ratio": '{"cpu": 2}'}
)
TOPOLOGY = NodeTopology(
    node="n",
    version=1,
    cores=[CoreCpus(zone=0, socket=0, cpus=[0, 1]), CoreCpus(zone=1, socket=0, cpus=[2, 3])],
    zones=[ZoneCapacity(zone=each, amounts={"cpu": 2000, "memory": 8}) for each in (0, 1)],
    reserved=[1],
)
TABLE = {"1": [{"minors": [0]}, {"minors": [1]}], "2": [{"minors": [0, 1]}, {"minors": [2, 3]}]}
SPEC = {names.ANNOTATION_GPU_PARTITION_SPEC: "{}"}
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}


def zone(which: int, **amounts: int) -> Grant:
    return Grant(kind=ZONE, id=str(which), amounts=amounts)


def card(minor: int, extension: str = "", **amounts: int) -> Grant:
    return device("gpu", minor, amounts or WHOLE, extension)


def chip(minor: int, core: int = 0, ratio: int = 0) -> Grant:
    return device("gpu", minor, {names.NPU_CORE: core, names.GPU_MEMORY_RATIO: ratio})


def claim(*grants: Grant, name: str = "other", **more: object) -> Claim:
    return Claim(("ns", name), name, "n", {}, grants, plan="p", **more)


def found(mine: Sequence[Grant], *others: Claim, node: Node = NODE, notes: dict | None = None, **more: object) -> str:
    return broken_law(claim(*mine, name="me"), others, PodTemplate(annotations=notes or {}), Place(node, **more))


@pytest.mark.parametrize(
    ("mine", "others", "node", "text"),
    [
        ([one(CPU, "0")], [], NODE, ""),
        ([one(CPU, "1")], [], NODE, "CPU 1 on n is kept for others"),
        ([one(CPU, "4")], [], NODE, "CPU 4 on n is not there any more"),
        ([zone(0, cpu=1000)], [claim(zone(0, cpu=1000))], NODE, ""),
        ([zone(0, cpu=1001)], [claim(zone(0, cpu=1000))], NODE, "cpu of NUMA node 0 on n: 2001 claimed of 2000"),
        ([zone(0, cpu=1001)], [claim(zone(0, cpu=1000))], TWICE, ""),
        ([zone(0, memory=9)], [], NODE, "memory of NUMA node 0 on n: 9 claimed of 8"),
        ([zone(7, cpu=1)], [], NODE, "cpu of NUMA node 7 on n: 1 claimed of 0"),
        ([zone(1, cpu=1500)], [claim(one(CPU, "2"))], NODE, "cpu of NUMA node 1 on n: 2500 claimed of 2000"),
        ([zone(1, cpu=1500)], [claim(zone(0, cpu=2000), zone(1, memory=8))], NODE, ""),
        (
            [zone(0, cpu=1500)],
            [claim(zone(0, cpu=1500), name="r", is_reservation=True), claim(zone(0, cpu=500), reservation="r")],
            NODE,
            "cpu of NUMA node 0 on n: 3000 claimed of 2000",
        ),
        (
            [zone(0, cpu=500)],
            [claim(zone(0, cpu=1500), name="r", is_reservation=True), claim(zone(0, cpu=500), reservation="r")],
            NODE,
            "",
        ),
        ([], [claim(zone(0, cpu=9000))], NODE, ""),
        ([zone(0, **{names.BATCH_CPU: 500})], [claim(zone(0, **{names.BATCH_CPU: 9000}))], NODE, ""),
    ],
)
def test_cpus_and_numa_nodes(mine, others, node, text):
    assert found(mine, *others, node=node, topology=TOPOLOGY) == text


def test_without_a_topology_there_is_nothing_to_give():
    assert found([one(CPU, "0")]) == "CPU 0 on n is not there any more"


@pytest.mark.parametrize(
    ("mine", "others", "text"),
    [
        ([chip(0, 2)], [claim(chip(0, 2))], ""),
        ([chip(0, 2)], [claim(chip(1, ratio=50))], ""),
        ([chip(0, 2)], [claim(chip(0, ratio=50), is_reservation=True)], ""),
        ([chip(0, 2)], [claim(chip(0, ratio=50))], "is cut into virtual NPUs and given out otherwise, to ns/other"),
        ([chip(0, ratio=5)], [claim(chip(0, 2))], "is cut into virtual NPUs and given out otherwise, to ns/other"),
        ([chip(0, 5)], [claim(chip(0, 4))], f"{names.NPU_CORE} of gpu minor 0 on n: 9 claimed of 8"),
    ],
)
def test_chips(mine, others, text):
    chips = [DeviceInfo(kind="gpu", minor=each, healthy=True, amounts={names.NPU_CORE: 8}) for each in (0, 1)]
    there = Device(name="n", uid="d", version=1, devices=chips)
    assert found(mine, *others, device=there).endswith(text)
    assert bool(found(mine, *others, device=there)) == bool(text)


@pytest.mark.parametrize(
    ("mine", "others", "text"),
    [
        ([card(0, OWN_ROOT)], [claim(card(2))], ""),
        ([card(0)], [claim(card(1))], ""),
        ([card(0, OWN_ROOT)], [claim(card(1))], "the PCIe root of gpu minor 0 on n is one pod's own, beside ns/other"),
        ([card(0)], [claim(card(1, OWN_ROOT))], "the PCIe root of gpu minor 0 on n is one pod's own, beside ns/other"),
        ([card(3, OWN_ROOT)], [], "nobody knows the PCIe root of gpu minor 3 on n, which is to be one pod's own"),
        ([card(0)], [claim(device("rdma", 0, {names.RDMA: 5}, OWN_ROOT))], ""),
    ],
)
def test_own_roots(mine, others, text):
    roots = ["p0", "p0", "p1", ""]
    listed = [
        DeviceInfo(kind="gpu", minor=minor, healthy=True, topology=DeviceTopology(pcie=root))
        for minor, root in enumerate(roots)
    ]
    assert found(mine, *others, device=Device(name="n", uid="d", version=1, devices=listed)) == text


@pytest.mark.parametrize(
    ("minors", "policy", "notes", "table", "holds"),
    [
        ([0, 1], "Honor", {}, TABLE, True),
        ([1, 2], "Honor", {}, TABLE, False),
        ([1, 2], "Prefer", {}, TABLE, True),
        ([1, 2], "Prefer", SPEC, TABLE, False),
        ([2, 3], "Prefer", SPEC, TABLE, True),
        ([0, 1, 2], "Honor", {}, TABLE, False),
        ([0], "Honor", {}, None, False),
        ([0], "Prefer", {}, None, True),
    ],
)
def test_partitions(minors, policy, notes, table, holds):
    labels = {names.LABEL_GPU_PARTITION_POLICY: policy}
    tables = {names.ANNOTATION_GPU_PARTITIONS: json.dumps(table)} if table is not None else {}
    there = Device(name="n", uid="d", version=1, labels=labels, annotations=tables)
    node = Node(name="n", uid="n", version=1, labels=labels)
    text = f"gpu minors {', '.join(map(str, minors))} on n are no partition of the node any more"
    found_text = found([card(each) for each in minors], node=node, notes=notes, device=there)
    assert found_text == ("" if holds else text)


def test_parts_of_cards_are_no_partition():
    there = device_of("n", 4)
    node = Node(name="n", uid="n", version=1, labels={names.LABEL_GPU_PARTITION_POLICY: "Honor"})
    assert found([card(0, **{names.GPU_MEMORY_RATIO: 50})], node=node, device=there) == ""


OWN = {0: ((), (0,)), 1: ((), (2,), (2, 3))}
"""CPUs of one's own, by the NUMA node in which they lie: no plan gives out those of another one."""
_share = st.builds(
    lambda whose, cpu, memory: (
        zone(whose[0], cpu=1000 * len(whose[1]) if whose[1] else cpu, memory=memory),
        *(one(CPU, str(each)) for each in whose[1]),
    ),
    st.sampled_from([(which, own) for which, owned in OWN.items() for own in owned]),
    st.integers(0, 2500),
    st.integers(0, 6),
)


@settings(max_examples=50, deadline=None)
@given(_share, st.lists(st.tuples(_share, st.booleans(), st.booleans()), max_size=4), st.sampled_from((NODE, TWICE)))
def test_what_the_verifier_lets_pass_is_not_withdrawn(mine, others, node):
    claims = [
        claim(*grants, name=f"o{number}", is_reservation=reserves, reservation="o0" if draws and number else "")
        for number, (grants, reserves, draws) in enumerate(others)
    ]
    new = claim(*mine, name="me")
    if not list(zones_beyond(node, TOPOLOGY, claims, [new], lambda each: None)):
        assert broken_law(new, claims, PodTemplate(), Place(node, None, TOPOLOGY)) == ""
