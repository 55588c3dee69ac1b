"""Manifests as they are written for Koordinator, put into a cluster unchanged: one of each that is placed in a node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.e2e.capacity import check_capacity
from tests.e2e.clusters import cluster_of
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, Json, note
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.cli.commands.node import ask_node
from berth.cli.load.api import path_of
from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FOLDER = Path(__file__).parent / "manifests"
OURS = {"BERTH_SCHEDULER_NAMES": "koord-scheduler"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str) -> AsyncIterator[Whole]:
    with cluster_of(kind) as cluster:
        async with run_whole(cluster, environment=OURS) as running:
            for manifest in manifests("koordinator-node.yaml"):
                status, answer = await running.try_call("POST", path_of(manifest), manifest)
                is_there = status == 409 and manifest["kind"] == "PriorityClass"  # the installation brought it
                assert status == 201 or is_there, answer
            yield running


def manifests(file: str) -> list[Json]:
    return list(yaml.safe_load_all((FOLDER / file).read_text()))


def record(pod: Json, annotation: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(note(pod, annotation) or "{}")
    return found


async def test_each_is_bound_with_its_record(whole: Whole) -> None:
    corner = Corner(whole, "default")
    asked = manifests("koordinator-pods.yaml")
    await whole.call("POST", path_of(asked[0]), asked[0])
    await corner.bound(asked[0]["metadata"]["name"])  # in NUMA node 0, so that six CPUs of one node leave its card CPUs
    for manifest in asked[1:]:
        await whole.call("POST", path_of(manifest), manifest)
    placed = await corner.bound(*(each["metadata"]["name"] for each in asked))
    bound = {pod["metadata"]["name"]: pod for pod in placed}
    assert {name: pod["spec"]["nodeName"] for name, pod in bound.items()} == {
        **dict.fromkeys(bound, "worker-0"),
        "partition": "worker-1",
    }

    cpus = {name: record(bound[name], names.ANNOTATION_RESOURCE_STATUS) for name in ("lsr", "one-numa-node")}
    assert {name: len(_cpus(each["cpuset"])) for name, each in cpus.items()} == {"lsr": 4, "one-numa-node": 6}
    assert not _cpus(cpus["lsr"]["cpuset"]) & _cpus(cpus["one-numa-node"]["cpuset"])
    assert all({cpu ^ 8 for cpu in _cpus(each["cpuset"])} == _cpus(each["cpuset"]) for each in cpus.values())
    (zone,) = cpus["one-numa-node"]["numaNodeResources"]
    assert zone["resources"] == {"cpu": "6", "memory": "8Gi"}

    together = record(bound["gpu-and-cpu-together"], names.ANNOTATION_RESOURCE_STATUS)["numaNodeResources"]
    assert [(each["node"], each["resources"]["cpu"]) for each in together] == [(0, "1")], "beside its card"

    given = {name: record(pod, names.ANNOTATION_DEVICE_ALLOCATED) for name, pod in bound.items()}
    minors = {
        (name, kind): [each["minor"] for each in entries] for name, of in given.items() for kind, entries in of.items()
    }
    assert minors == {
        ("gpu-share", "gpu"): [0],
        ("gpu-and-cpu-together", "gpu"): [0],
        ("gpu-and-rdma", "gpu"): [1],
        ("gpu-and-rdma", "rdma"): [1],
        ("rdma-function", "rdma"): [1],
        ("fpga", "fpga"): [0],
        ("partition", "gpu"): minors["partition", "gpu"],
    }
    assert minors["partition", "gpu"] in ([0, 2], [1, 3])
    assert given["gpu-share"]["gpu"][0]["resources"] == {
        names.GPU_CORE: "50",
        names.GPU_MEMORY: "40Gi",
        names.GPU_MEMORY_RATIO: "50",
    }
    functions = [
        each["busID"]
        for name in ("gpu-and-rdma", "rdma-function")
        for each in given[name]["rdma"][0]["extension"]["vfs"]
    ]
    assert sorted(functions) == ["0000:82:00.2", "0000:82:00.3"]
    await check_capacity(whole)


async def test_the_picture_of_the_node_shows_all_holders(whole: Whole) -> None:
    async def look() -> bool:
        answer = await ask_node(whole.bus, "worker-0")
        return answer is not None and all(pod.state == "bound" for pod in answer.pods)

    await until(look, "every pod of worker-0 to be shown as bound")
    answer = await ask_node(whole.bus, "worker-0")
    assert answer is not None
    holders = {(each.kind, each.minor): [one.holder for one in each.holdings] for each in answer.devices}
    assert sorted(holders["gpu", 0]) == ["default/gpu-and-cpu-together", "default/gpu-share"]
    assert holders["gpu", 1] == ["default/gpu-and-rdma"]
    assert holders["fpga", 0] == ["default/fpga"]
    assert set(answer.own_cpus) == {"default/lsr", "default/one-numa-node"}
    zoned = {one.holder: zone.id for zone in answer.zones for one in zone.holdings}
    assert zoned["default/gpu-and-cpu-together"] == 0
    assert zoned.keys() == {"default/gpu-and-cpu-together", "default/one-numa-node"}
    assert answer.problems == []
    node = await whole.call("GET", f"{NODES}/worker-0")
    assert node["status"]["allocatable"][names.RDMA] == "200"


def _cpus(text: str) -> set[int]:
    """The CPUs of a list."""
    parts = (part.partition("-") for part in text.split(","))
    return {cpu for low, _, high in parts for cpu in range(int(low), int(high or low) + 1)}
