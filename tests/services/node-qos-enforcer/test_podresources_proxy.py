"""PodResources as the agent serves them: kubelet's word and the devices of the node's pods."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from tests.libs.kubelet.kubelet_double import KubeletDouble
from tests.services.node_qos_builders import gpu, pod

from berth.bus.port import BusPort
from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.state import DeviceFunction
from berth.kubelet.client import PodResourcesClient, Unanswered
from berth.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from berth.node_qos_enforcer.core.inside.seen import pod_seen
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.kubelet_reading import KubeletApi, KubeletPods
from berth.node_qos_enforcer.podresources_proxy import ProxyServing
from berth.node_qos_enforcer.pods_of_node import PodsOfNode
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context

DEADLINE_S = 10.0
CARD = gpu(0)


class Api(KubeletApi):
    """A kubelet whose list of pods is said by hand."""

    def __init__(self) -> None:
        super().__init__("", token_file="", ca_file="")
        self.answer: str | Problem = Problem(field="pods", message="kubelet does not answer")

    def get(self, path: str, field: str, bytes_max: int) -> str | Problem:
        return self.answer

    def has(self, *listed: tuple[str, Any]) -> None:
        items = [
            {"metadata": {"namespace": "work", "name": name, "uid": f"uid-{name}", "annotations": annotations}}
            for name, annotations in listed
        ]
        self.answer = json.dumps({"items": items})


class Node:
    """A kubelet with one pod of two containers, the agent's proxy before it, and who asks."""

    def __init__(self, folder: Path, *, from_kubelet: bool = False) -> None:
        containers = [ContainerResources(name=name) for name in ("side", "main")]
        answer = ListPodResourcesResponse(
            pod_resources=[PodResources(name="web", namespace="work", containers=containers)]
        )
        self.kubelet = KubeletDouble(folder / "kubelet.sock", {"List": answer.SerializeToString()})
        self.inside = Inside(Settings(), KnownNode("n"))
        self.api = Api()
        self.settings = Settings(
            node_name="n",
            podresources_socket=str(self.kubelet.path),
            podresources_proxy=str(folder / "proxy/kubelet.sock"),
            nri_socket="" if from_kubelet else "nri.sock",
            kubelet_url="https://kubelet" if from_kubelet else "",
        )
        ctx = Context(service="t", settings=self.settings, bus=cast("BusPort", None), random=random.Random(1))
        seen, listed = (None, KubeletPods(self.api)) if from_kubelet else (self.inside, None)
        self.now = 0.0
        self.pods = PodsOfNode(seen, listed, lambda: self.now)
        self.serving = ProxyServing(ctx, self.pods, self.inside.inventory)
        self.caller = PodResourcesClient(Path(self.settings.podresources_proxy), timeout_s=DEADLINE_S)

    async def held(self) -> dict[str, list[tuple[str, list[str], list[int]]]]:
        [web] = (await self.caller.list()).pod_resources
        return {
            each.name: [
                (one.resource_name, list(one.device_ids), [node.ID for node in one.topology.nodes])
                for one in each.devices
            ]
            for each in web.containers
        }


@contextlib.asynccontextmanager
async def serving(node: Node) -> AsyncIterator[Node]:
    async with node.kubelet, node.caller:
        task = asyncio.create_task(node.serving.run())
        try:
            await eventually(lambda: Path(node.settings.podresources_proxy).is_socket())
            yield node
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def eventually(holds: Any) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_devices_are_at_the_container_that_asked_with_their_numa_node(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with serving(node):
        with pytest.raises(Unanswered) as refused:
            await node.caller.list()
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE, "nobody knows the pods yet"
        slot = DeviceSlot(kind="gpu", minor=0, uuid=CARD["id"], numa_node=1)
        node.inside.inventory.inventory = NodeInventory(node="n", version=1, devices=[slot])
        node.inside.board.hear([], [], more=False)
        assert await node.held() == {"side": [], "main": []}
        web = pod("web", devices={"gpu": [CARD]}, containers={"main": {"gpu": [{"minor": 0}]}})
        node.inside.board.begin(pod_seen(web))
        assert await node.held() == {"side": [], "main": [(names.NVIDIA_GPU, [CARD["id"]], [1])]}
        assert node.serving.problems() == ()


async def test_what_there_is_to_give_out_has_the_devices_of_the_node(tmp_path: Path) -> None:
    node = Node(tmp_path)
    theirs = AllocatableResourcesResponse(cpu_ids=[3])
    theirs.devices.add(resource_name="zoo.example/x", device_ids=["x0"])
    theirs.devices.add(resource_name=names.NVIDIA_GPU, device_ids=["GPU-theirs"])
    node.kubelet.answers["GetAllocatableResources"] = theirs.SerializeToString()
    slots = [
        DeviceSlot(kind="gpu", minor=0, uuid="GPU-0", numa_node=1),
        DeviceSlot(kind="gpu", minor=1, uuid="GPU-ill", healthy=False),
        DeviceSlot(kind="gpu", minor=2, uuid="GPU-theirs"),
        DeviceSlot(kind="rdma", minor=0, uuid="0000:01:00.0", functions=[DeviceFunction(bus="0000:01:00.2")]),
        DeviceSlot(kind="rdma", minor=1, uuid="0000:02:00.0"),
        DeviceSlot(kind="fpga", minor=0, uuid="0000:03:00.0"),
    ]
    async with serving(node):
        assert await node.caller.allocatable() == theirs, "nothing is known of the node"
        node.inside.inventory.inventory = NodeInventory(node="n", version=1, devices=slots)
        found = await node.caller.allocatable()
        assert list(found.cpu_ids) == [3]
        assert [(each.resource_name, list(each.device_ids)) for each in found.devices] == [
            (names.RDMA, ["0000:01:00.2", "0000:02:00.0"]),
            (names.NVIDIA_GPU, ["GPU-theirs"]),
            (names.NVIDIA_GPU, ["GPU-0"]),
            ("zoo.example/x", ["x0"]),
        ]
        assert [node.ID for node in found.devices[2].topology.nodes] == [1]
        node.kubelet.answers["GetAllocatableResources"] = b"\xff"
        with pytest.raises(Unanswered) as torn:
            await node.caller.allocatable()
        assert torn.value.code is grpc.StatusCode.UNAVAILABLE


async def test_a_record_that_cannot_be_read_is_named_and_kubelets_word_passes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with serving(node):
        node.inside.board.hear([], [], more=False)
        node.inside.board.begin(pod_seen(pod("web", annotations={names.ANNOTATION_DEVICE_ALLOCATED: "{"})))
        assert await node.held() == {"side": [], "main": []}
        [problem] = node.serving.problems()
        assert problem.field == f"work/web metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}]"


async def test_kubelets_list_has_a_pod_before_its_sandbox_and_stays_while_kubelet_is_away(tmp_path: Path) -> None:
    node = Node(tmp_path, from_kubelet=True)
    async with serving(node):
        with pytest.raises(Unanswered):
            await node.caller.list()
        assert [each.field for each in node.serving.problems()] == ["pods"]
        node.now += 10
        node.api.has(("web", {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [CARD]})}), ("bare", None))
        first = {"side": [(names.NVIDIA_GPU, [CARD["id"]], [])], "main": []}
        assert await node.held() == first
        assert await node.pods.names() == {"uid-web": ("work", "web"), "uid-bare": ("work", "bare")}
        for answer in ('{"items":[]}', Problem(field="pods", message="away"), "torn"):
            node.now += 10
            node.api.answer = answer
            assert await node.held() == first


async def test_a_socket_that_is_taken_away_is_made_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = Path(node.settings.podresources_proxy)
    async with serving(node):
        path.unlink()
        await eventually(path.is_socket)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"nri_socket": "s"}, "BERTH_PODRESOURCES_SOCKET"),
        ({"podresources_socket": "s"}, "BERTH_NRI_SOCKET or BERTH_KUBELET_URL"),
    ],
)
async def test_settings_that_do_not_suffice_are_named(settings: dict[str, str], text: str) -> None:
    told = Settings(podresources_proxy="p", **settings)
    ctx = Context(service="t", settings=told, bus=cast("BusPort", None), random=random.Random(1))
    proxy = ProxyServing(ctx, PodsOfNode(None, None, lambda: 0.0), Inside(told, KnownNode("n")).inventory)
    [problem] = proxy.problems()
    assert text in problem.message
    assert problem.field == "podresources_proxy"


async def test_kubelets_own_socket_is_never_replaced(tmp_path: Path) -> None:
    node = Node(tmp_path)
    own = node.kubelet.path
    node.serving._ctx.settings = Settings(podresources_socket=str(own), podresources_proxy=str(own), nri_socket="s")
    async with node.kubelet:
        task = asyncio.create_task(node.serving.run())
        await eventually(node.serving.problems)
        assert "kubelet's own socket" in node.serving.problems()[0].message
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert own.is_socket()
