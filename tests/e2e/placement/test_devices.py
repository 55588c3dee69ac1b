"""RDMA devices, virtual functions, FPGAs, and GPUs in partitions: what is given, and that it is given once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import Json, gpu
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

FUNCTION = {names.ANNOTATION_DEVICE_HINT: json.dumps({"rdma": {"vfSelector": {"matchLabels": {"type": "general"}}}})}
SINGLE = {names.ANNOTATION_NUMA_SPEC: json.dumps({"numaTopologyPolicy": "SingleNUMANode"})}
SIDE_BY_SIDE = {
    names.ANNOTATION_DEVICE_JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"})
}


def place(root: int) -> Json:
    return {"socketID": -1, "nodeID": root // 2, "pcieID": f"pci0000:{root:02x}", "busID": f"0000:{root:02x}:00.0"}


def nic(minor: int, functions: int = 2) -> Json:
    listed = [{"minor": -1, "busID": f"0000:{minor:02x}:01.{number}"} for number in range(functions)]
    return {
        "type": "rdma",
        "id": f"0000:{minor:02x}:00.0",
        "minor": minor,
        "health": True,
        "resources": {names.RDMA: "100"},
        "topology": place(minor),
        "vfGroups": [{"labels": {"type": "general"}, "vfs": listed}],
    }


def card(minor: int, root: int = 0) -> Json:
    return {**gpu(minor, f"GPU-{minor}"), "topology": place(root)}


def given(pod: Json) -> dict[str, list[Any]]:
    """The record of a bound pod."""
    read: dict[str, list[Any]] = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_DEVICE_ALLOCATED])
    return read


async def test_each_pod_gets_a_virtual_function_of_its_own(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    await corner.device("n", [nic(0, functions=2)])
    one = {names.RDMA: "1"}
    pods = await corner.bound(*[await corner.pod(name, one, annotations=FUNCTION) for name in "ab"])
    entries = [entry for pod in pods for entry in given(pod)["rdma"]]
    buses = [each["busID"] for entry in entries for each in entry["extension"]["vfs"]]
    assert sorted(buses) == ["0000:00:01.0", "0000:00:01.1"]
    assert [(entry["minor"], entry["id"], entry["resources"]) for entry in entries] == [(0, "0000:00:00.0", one)] * 2
    await corner.pod("c", one, annotations=FUNCTION)
    await corner.refused("c", "Insufficient rdma devices")
    why = await corner.whole.why(corner.namespace, "c")
    assert any("a virtual function of RDMA device 0" in reason.repair for reason in why.reasons)
    await corner.delete_pod("a")
    (third,) = await corner.bound("c")
    assert given(third)["rdma"][0]["extension"]["vfs"][0]["busID"] == buses[0]
    await check_capacity(whole)


async def test_gpus_and_an_rdma_device_lie_side_by_side(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    await corner.device("n", [*(card(minor, minor // 2) for minor in range(4)), nic(0, functions=0), nic(1)])
    both = {names.NVIDIA_GPU: "2", names.RDMA: "1"}
    (pod,) = await corner.bound(await corner.pod("a", both, annotations=FUNCTION | SIDE_BY_SIDE))
    assert [each["minor"] for each in given(pod)["gpu"]] == [2, 3], "GPUs 0 and 1 have no function beside them"
    assert [each["minor"] for each in given(pod)["rdma"]] == [1]
    await corner.pod("b", both, annotations=FUNCTION | SIDE_BY_SIDE)
    await corner.refused("b", "node(s) Device Joint-Allocate rules violation")
    await check_capacity(whole)


async def test_an_fpga_is_shared_by_percent(whole: Whole, corner: Corner) -> None:
    await corner.node("n")
    await corner.device("n", [{"type": "fpga", "minor": 0, "health": True, "resources": {names.FPGA: "100"}}])
    pods = await corner.bound(await corner.pod("a", {names.FPGA: "60"}), await corner.pod("b", {names.FPGA: "40"}))
    assert [given(pod)["fpga"][0]["resources"][names.FPGA] for pod in pods] == ["60", "40"]
    await corner.pod("c", {names.FPGA: "1"})
    await corner.refused("c", "Insufficient fpga devices")
    await check_capacity(whole)


async def test_whole_gpus_are_given_out_in_the_partitions_of_the_device(whole: Whole, corner: Corner) -> None:
    table = {"1": [{"minors": [each]} for each in range(4)], "2": [{"minors": [0, 2]}, {"minors": [1, 3]}]}
    await corner.node("n")
    await corner.device(
        "n",
        [card(minor) for minor in range(4)],
        labels={names.LABEL_GPU_PARTITION_POLICY: "Honor"},
        annotations={names.ANNOTATION_GPU_PARTITIONS: json.dumps(table)},
    )
    pods = await corner.bound(
        await corner.pod("a", {names.NVIDIA_GPU: "2"}), await corner.pod("b", {names.NVIDIA_GPU: "2"})
    )
    assert sorted([each["minor"] for each in given(pod)["gpu"]] for pod in pods) == [[0, 2], [1, 3]]
    await corner.pod("c", {names.NVIDIA_GPU: "3"})
    await corner.refused("c", "node(s) Unsupported number of GPU requests")
    await check_capacity(whole)


async def test_a_card_and_cpus_lie_on_one_numa_node(corner: Corner) -> None:
    wishes: Json = {
        "labels": {names.LABEL_QOS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"},
        "annotations": SINGLE,
    }
    await corner.node("n", cpu="16")
    await corner.topology("n")
    await corner.device("n", [card(0), card(1, root=2)])
    await corner.pod("first", {"cpu": "6"}, **wishes)
    await corner.bound("first")
    await corner.pod("a", {"cpu": "4", names.NVIDIA_GPU: "1"}, **wishes)
    (pod,) = await corner.bound("a")
    assert [entry["minor"] for entry in given(pod)["gpu"]] == [1]
    status = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_RESOURCE_STATUS])
    assert [each["node"] for each in status["numaNodeResources"]] == [1]
    await corner.pod("b", {"cpu": "4", names.NVIDIA_GPU: "1"}, **wishes)
    await corner.refused("b", "Unaligned NUMA Hint cause cpu prefer [10] among [10],gpu prefer [01] among [01]")
    await corner.placed_now()
