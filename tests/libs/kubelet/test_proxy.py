"""The proxy between a kubelet and its callers, over real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio
import pytest
from tests.libs.kubelet.kubelet_double import KubeletDouble

from berth.contracts import names
from berth.contracts.base import Problem
from berth.kubelet.client import MESSAGE_BYTES_MAX, SERVICE, PodResourcesClient, Unanswered
from berth.kubelet.core.merging import Pods
from berth.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesResponse,
    PodResources,
)
from berth.kubelet.proxy import KnownPods, PodResourcesProxy
from berth.kubelet.sockets import PATH_BYTES_MAX, SocketUnusable

DEADLINE_S = 20.0
GPU = json.dumps({"gpu": [{"minor": 0, "id": "GPU-a"}]})
UNKNOWN = bytes([0x9A, 0x06, 0x03]) + b"new"
"""Field 99, which no kubelet has today."""


def listed(pods: int = 1, bytes_each: int = 0) -> bytes:
    answer = ListPodResourcesResponse()
    for at in range(pods):
        container = answer.pod_resources.add(name=f"p{at}", namespace="d").containers.add(name="c")
        if bytes_each:
            container.devices.add(resource_name="big.example/x", device_ids=["x" * bytes_each])
    return answer.SerializeToString()


def knowing(pods: Callable[[], Pods | None]) -> KnownPods:
    async def ask() -> Pods | None:
        return pods()

    return ask


class House(NamedTuple):
    kubelet: KubeletDouble
    proxy: PodResourcesProxy
    caller: PodResourcesClient
    pods: dict[tuple[str, str], dict[str, str]]
    problems: list[Problem]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    pods: dict[tuple[str, str], dict[str, str]] = {}
    problems: list[Problem] = []
    kubelet = KubeletDouble(tmp_path / "kubelet" / "k.sock", {"List": listed()})
    upstream = PodResourcesClient(kubelet.path, timeout_s=DEADLINE_S)
    proxy = PodResourcesProxy(tmp_path / "proxy" / "k.sock", upstream, knowing(lambda: pods), report=problems.extend)
    async with kubelet, upstream, proxy, PodResourcesClient(proxy.path, timeout_s=DEADLINE_S) as caller:
        yield House(kubelet, proxy, caller, pods, problems)


async def eventually(client: PodResourcesClient) -> ListPodResourcesResponse:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await client.list()
            except Unanswered as error:
                assert error.code is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
                await asyncio.sleep(0.02)


async def test_a_pod_has_the_devices_of_its_record(house: House) -> None:
    house.pods["d", "p0"] = {names.ANNOTATION_DEVICE_ALLOCATED: GPU}
    answer = await house.caller.list()
    assert answer.pod_resources[0].containers[0].devices == [
        ContainerDevices(resource_name=names.NVIDIA_GPU, device_ids=["GPU-a"])
    ]
    assert not house.problems


async def test_a_bad_record_leaves_its_pod_and_is_named(house: House) -> None:
    house.pods["d", "p0"] = {names.ANNOTATION_DEVICE_ALLOCATED: "{"}
    assert (await house.caller.list()).SerializeToString() == listed()
    assert [each.field for each in house.problems] == [
        f"d/p0 metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}]"
    ]


async def test_the_rest_passes_as_it_is(house: House) -> None:
    allocatable = AllocatableResourcesResponse(cpu_ids=[1, 2]).SerializeToString() + UNKNOWN
    one = GetPodResourcesResponse(pod_resources=PodResources(name="p0", namespace="d")).SerializeToString() + UNKNOWN
    house.kubelet.answers.update({"GetAllocatableResources": allocatable, "Get": one, "OfTomorrow": b"\x08\x01"})
    assert await house.caller.ask("GetAllocatableResources", b"") == allocatable
    assert list((await house.caller.allocatable()).cpu_ids) == [1, 2]
    asked = GetPodResourcesRequest(pod_name="p0", pod_namespace="d").SerializeToString()
    assert await house.caller.ask("Get", asked + UNKNOWN) == one
    assert (await house.caller.get("d", "p0")).name == "p0"
    assert await house.caller.ask("OfTomorrow", b"\x10\x02") == b"\x08\x01"
    assert ("Get", asked + UNKNOWN) in house.kubelet.asked
    assert ("OfTomorrow", b"\x10\x02") in house.kubelet.asked


async def test_fields_of_a_newer_kubelet_survive_list(house: House) -> None:
    house.kubelet.answers["List"] = listed() + UNKNOWN
    house.pods["d", "p0"] = {names.ANNOTATION_DEVICE_ALLOCATED: GPU}
    raw = await house.caller.ask("List", b"")
    assert raw.endswith(UNKNOWN)
    assert b"GPU-a" in raw


async def test_kubelet_away_and_back(house: House) -> None:
    assert await house.caller.list()
    await house.kubelet.stop()
    with pytest.raises(Unanswered) as refused:
        await house.caller.list()
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE
    assert house.proxy.is_listening
    await house.kubelet.start()
    assert len((await eventually(house.caller)).pod_resources) == 1


async def test_a_proxy_may_start_before_its_kubelet(tmp_path: Path) -> None:
    kubelet = KubeletDouble(tmp_path / "k" / "k.sock", {"List": listed()})
    upstream = PodResourcesClient(kubelet.path)
    proxy = PodResourcesProxy(tmp_path / "p.sock", upstream, knowing(dict))
    async with upstream, proxy, PodResourcesClient(proxy.path) as caller:
        with pytest.raises(Unanswered, match="UNAVAILABLE"):
            await caller.list()
        async with kubelet:
            assert await eventually(caller)


async def test_while_the_pods_are_not_known_nobody_is_answered(tmp_path: Path) -> None:
    known: list[Pods] = []
    kubelet = KubeletDouble(tmp_path / "k.sock", {"List": listed()})
    upstream = PodResourcesClient(kubelet.path)
    proxy = PodResourcesProxy(tmp_path / "p.sock", upstream, knowing(lambda: known[0] if known else None))
    async with kubelet, upstream, proxy, PodResourcesClient(proxy.path) as caller:
        with pytest.raises(Unanswered, match="UNAVAILABLE: the pods of this node are not known yet"):
            await caller.list()
        known.append({})
        assert await caller.list()


@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_what_kubelet_refuses_it_refuses(house: House, code: grpc.StatusCode) -> None:
    house.kubelet.answers["List"] = house.kubelet.answers["Get"] = (code, "rejected by rate limit")
    for asking in (house.caller.list(), house.caller.get("d", "p")):
        with pytest.raises(Unanswered, match="kubelet: rejected by rate limit") as refused:
            await asking
        assert refused.value.code is code


async def test_what_cannot_be_decoded_is_unavailable(house: House) -> None:
    house.kubelet.answers["List"] = b"\x0a\xff\xff"
    with pytest.raises(Unanswered, match="UNAVAILABLE: kubelet's answer cannot be read"):
        await house.caller.list()


async def test_a_kubelet_that_does_not_answer_in_time_is_away(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(tmp_path / "mute.sock"))
    listener.listen()
    upstream = PodResourcesClient(tmp_path / "mute.sock", timeout_s=0.2)
    proxy = PodResourcesProxy(tmp_path / "p.sock", upstream, knowing(dict))
    try:
        async with upstream, proxy, PodResourcesClient(proxy.path, timeout_s=DEADLINE_S) as caller:
            with pytest.raises(Unanswered, match="UNAVAILABLE"):
                await caller.list()
    finally:
        listener.close()


async def test_another_service_is_not_served(house: House) -> None:
    async with grpc.aio.insecure_channel(f"unix:{house.proxy.path}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(f"/{SERVICE.replace('v1', 'v1alpha1')}/List")(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert house.kubelet.asked == []


async def test_answers_up_to_16_mebibytes_pass(house: House) -> None:
    house.kubelet.answers["List"] = listed(15, 1 << 20)
    house.pods.update({("d", f"p{at}"): {names.ANNOTATION_DEVICE_ALLOCATED: GPU} for at in range(15)})
    answer = await house.caller.list()
    assert answer.ByteSize() > 15 << 20
    assert [len(each.containers[0].devices) for each in answer.pod_resources] == [2] * 15


async def test_larger_answers_are_refused_and_the_next_is_served(house: House) -> None:
    house.kubelet.answers["List"] = listed(1, MESSAGE_BYTES_MAX)
    with pytest.raises(Unanswered) as refused:
        await house.caller.list()
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    house.kubelet.answers["List"] = listed()
    assert await house.caller.list()


async def test_many_callers_at_once(house: House) -> None:
    house.pods["d", "p0"] = {names.ANNOTATION_DEVICE_ALLOCATED: GPU}
    answers = await asyncio.gather(*(house.caller.list() for _ in range(30)))
    assert all(each == answers[0] for each in answers)


# --- sockets ---------------------------------------------------------------------------------------------------------


async def started(path: Path, upstream: Path) -> None:
    async with PodResourcesClient(upstream) as client, PodResourcesProxy(path, client, knowing(dict)) as proxy:
        assert proxy.is_listening


async def test_a_dead_servers_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "p.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()
    assert path.is_socket()
    await started(path, tmp_path / "k.sock")
    assert not path.exists()


async def test_a_living_servers_socket_is_not(house: House) -> None:
    with pytest.raises(SocketUnusable, match="another process serves it"):
        await started(house.proxy.path, house.kubelet.path)
    assert await house.caller.list()


async def test_kubelets_own_socket_is_never_taken(house: House, tmp_path: Path) -> None:
    with pytest.raises(SocketUnusable, match="kubelet's own"):
        await started(house.kubelet.path, house.kubelet.path)
    (tmp_path / "mounted").symlink_to(house.kubelet.path.parent)
    await house.kubelet.stop()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(house.kubelet.path))
    listener.close()
    with pytest.raises(SocketUnusable, match="kubelet's own"):
        await started(tmp_path / "mounted" / "k.sock", house.kubelet.path)
    assert house.kubelet.path.is_socket()


async def test_what_is_no_socket_is_kept(tmp_path: Path) -> None:
    (tmp_path / "p.sock").write_text("precious")
    with pytest.raises(SocketUnusable, match="no socket"):
        await started(tmp_path / "p.sock", tmp_path / "k.sock")
    assert (tmp_path / "p.sock").read_text() == "precious"


async def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(SocketUnusable, match=f"at most {PATH_BYTES_MAX} bytes"):
        await started(tmp_path / ("x" * 120), tmp_path / "k.sock")


async def test_a_proxy_notices_that_its_socket_is_gone(house: House) -> None:
    house.proxy.path.unlink()
    assert not house.proxy.is_listening


async def test_a_stopped_proxy_can_start_again(house: House) -> None:
    await house.proxy.stop()
    assert not house.proxy.is_listening
    await house.proxy.start()
    assert await eventually(house.caller)
