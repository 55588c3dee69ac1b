"""Kubelet's answer and the pods' records, merged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.kubelet.core.allocated import AllocatedDevice, devices_of_containers
from berth.kubelet.core.merging import Description, Merged, merge
from berth.kubelet.podresources_pb2 import ContainerDevices, ContainerResources, ListPodResourcesResponse, PodResources
from berth.testing.vectors import cases

GPUS = {"gpu": [{"minor": 0, "id": "GPU-a"}, {"minor": 1, "id": "GPU-b"}]}
NICS = {"rdma": [{"minor": 1, "id": "0000:09:00.0", "extension": {"vfs": [{"busID": "09:2"}, {"busID": "09:3"}]}}]}


def answer_of(pods: list[dict[str, Any]]) -> ListPodResourcesResponse:
    return ListPodResourcesResponse(
        pod_resources=[
            PodResources(
                name=pod["name"],
                namespace=pod["namespace"],
                containers=[
                    ContainerResources(
                        name=container["name"],
                        devices=[
                            ContainerDevices(resource_name=each["resourceName"], device_ids=each["deviceIds"])
                            for each in container["devices"]
                        ],
                    )
                    for container in pod["containers"]
                ],
            )
            for pod in pods
        ]
    )


def shown(answer: ListPodResourcesResponse) -> list[dict[str, Any]]:
    return [
        {
            "namespace": pod.namespace,
            "name": pod.name,
            "containers": [
                {
                    "name": container.name,
                    "devices": [
                        {"resourceName": each.resource_name, "deviceIds": list(each.device_ids)}
                        for each in container.devices
                    ],
                }
                for container in pod.containers
            ],
        }
        for pod in answer.pod_resources
    ]


def a_pod(*containers: str) -> ListPodResourcesResponse:
    listed = [{"name": name, "devices": []} for name in containers]
    return answer_of([{"namespace": "d", "name": "p", "containers": listed}])


def merged(answer: ListPodResourcesResponse, allocated: Any, shares: Any = None) -> Merged:
    annotations = {
        names.ANNOTATION_DEVICE_ALLOCATED: allocated if isinstance(allocated, str) else json.dumps(allocated)
    }
    if shares is not None:
        annotations[names.ANNOTATION_CONTAINER_DEVICES] = shares if isinstance(shares, str) else json.dumps(shares)
    return merge(answer, {("d", "p"): annotations})


def ids(result: Merged) -> dict[str, dict[str, list[str]]]:
    return {
        container.name: {each.resource_name: list(each.device_ids) for each in container.devices}
        for container in result.answer.pod_resources[0].containers
    }


@pytest.mark.parametrize("case", cases("devices/pod_resources_proxy"))
def test_a_reference_case(case: dict[str, Any]) -> None:
    pods = {(each["namespace"], each["name"]): each["annotations"] for each in case["given"]["pods"]}
    result = merge(answer_of(case["given"]["kubeletPodResources"]), pods)
    order = lambda each: (each["namespace"], each["name"])  # noqa: E731
    assert sorted(shown(result.answer), key=order) == sorted(case["expect"]["podResources"], key=order)


def test_each_container_has_what_it_asked_for() -> None:
    shares = {"init": GPUS, "train": {"gpu": [{"minor": 1}]}, "serve": {"gpu": [{"minor": 0}], "rdma": [{"minor": 1}]}}
    result = merged(a_pod("side", "train", "serve"), GPUS | NICS, shares)
    assert not result.problems
    assert ids(result) == {
        "side": {},
        "train": {names.NVIDIA_GPU: ["GPU-b"]},
        "serve": {names.RDMA: ["09:2", "09:3"], names.NVIDIA_GPU: ["GPU-a"]},
    }


def test_containers_share_a_nic_by_its_functions() -> None:
    shares = {
        name: {"rdma": [{"minor": 1, "extension": {"vfs": [{"busID": vf}]}}]}
        for name, vf in (("a", "09:3"), ("b", "09:2"))
    }
    assert ids(merged(a_pod("a", "b"), NICS, shares)) == {"a": {names.RDMA: ["09:3"]}, "b": {names.RDMA: ["09:2"]}}


@pytest.mark.parametrize("shares", ["", "{}", None])
def test_without_a_share_the_first_container_has_all(shares: str | None) -> None:
    assert ids(merged(a_pod("a", "b"), GPUS, shares)) == {"a": {names.NVIDIA_GPU: ["GPU-a", "GPU-b"]}, "b": {}}


@pytest.mark.parametrize(
    ("allocated", "shares", "field"),
    [
        ("no json", None, names.ANNOTATION_DEVICE_ALLOCATED),
        ('{"gpu":[{"minor":-1}]}', None, names.ANNOTATION_DEVICE_ALLOCATED),
        ('{"gpu":[{"id":7}]}', None, names.ANNOTATION_DEVICE_ALLOCATED),
        ('{"gpu":[' + "[" * 5000, None, names.ANNOTATION_DEVICE_ALLOCATED),
        ('{"gpu":[{"id":"' + "x" * 300 + '"}]}', None, names.ANNOTATION_DEVICE_ALLOCATED),
        ("{" + " " * 300_000 + "}", None, names.ANNOTATION_DEVICE_ALLOCATED),
        (GPUS, "no json", names.ANNOTATION_CONTAINER_DEVICES),
        (GPUS, {"a": {"gpu": [{"minor": 5}]}}, "a.gpu"),
        (NICS, {"a": {"rdma": [{"minor": 1, "extension": {"vfs": [{"busID": "0a:1"}]}}]}}, "a.rdma"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_and_its_pod_is_left_alone(
    allocated: Any, shares: Any, field: str
) -> None:
    before = answer_of(
        [
            {
                "namespace": "d",
                "name": "p",
                "containers": [{"name": "a", "devices": [{"resourceName": "x", "deviceIds": ["1"]}]}],
            }
        ]
    )
    result = merged(before, allocated, shares)
    assert result.answer == before
    (problem,) = result.problems
    assert problem.field.startswith("d/p metadata.annotations[")
    assert field in problem.field


def test_one_bad_record_costs_only_its_pod() -> None:
    answer = a_pod("a")
    answer.pod_resources.add(name="q", namespace="d").containers.add(name="a")
    bad, good = {names.ANNOTATION_DEVICE_ALLOCATED: "["}, {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(GPUS)}
    result = merge(answer, {("d", "p"): bad, ("d", "q"): good})
    assert len(result.problems) == 1
    assert list(result.answer.pod_resources[1].containers[0].devices[0].device_ids) == ["GPU-a", "GPU-b"]


def test_what_kubelet_says_itself_is_not_said_again() -> None:
    devices = [
        {"resourceName": names.NVIDIA_GPU, "deviceIds": ["GPU-a"]},
        {"resourceName": "a.b/c", "deviceIds": ["1"]},
    ]
    before = answer_of([{"namespace": "d", "name": "p", "containers": [{"name": "a", "devices": devices}]}])
    (container,) = merged(before, GPUS).answer.pod_resources[0].containers
    assert [(each.resource_name, list(each.device_ids)) for each in container.devices] == [
        ("a.b/c", ["1"]),
        (names.NVIDIA_GPU, ["GPU-a"]),
        (names.NVIDIA_GPU, ["GPU-b"]),
    ]


def test_devices_without_a_name_and_kinds_without_a_resource_are_left_out() -> None:
    allocated = {"gpu": [{"minor": 0}], "fpga": [{"minor": 0, "id": "f"}], "new": [{"id": "x"}]}
    assert ids(merged(a_pod("a"), allocated)) == {"a": {}}


def test_a_template_does_not_hide_the_card() -> None:
    allocated = {"gpu": [{"id": "npu-0-0", "extension": {"gpuSharedResourceTemplate": "vir02"}}]}
    assert ids(merged(a_pod("a"), allocated)) == {"a": {names.NVIDIA_GPU: ["npu-0-0"]}}


def test_a_vendor_has_a_name_and_a_zone_of_its_own() -> None:
    def describe(device: AllocatedDevice) -> Description:
        return Description(names.NPU_CORE if names.NPU_CORE in device.resources else "", device.minor)

    allocated = {"gpu": [{"minor": at, "id": f"npu-{at}", "resources": {names.NPU_CORE: "8"}} for at in (0, 1)]}
    result = merge(a_pod("a"), {("d", "p"): {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(allocated)}}, describe)
    devices = result.answer.pod_resources[0].containers[0].devices
    assert [
        (each.resource_name, list(each.device_ids), [node.ID for node in each.topology.nodes]) for each in devices
    ] == [
        (names.NPU_CORE, ["npu-0"], [0]),
        (names.NPU_CORE, ["npu-1"], [1]),
    ]


def test_the_answer_given_is_left_as_it_is() -> None:
    answer = a_pod("a")
    before = answer.SerializeToString()
    assert ids(merged(answer, GPUS))["a"]
    assert answer.SerializeToString() == before


def test_a_pod_without_containers_or_without_a_record_stays() -> None:
    for answer in (a_pod(), a_pod("a")):
        assert merge(answer, {}).answer == answer
        assert merge(answer, {("d", "p"): {}}).answer == answer
        assert merge(answer, {("other", "p"): {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(GPUS)}}).answer == answer


def test_fields_of_newer_kubelets_survive() -> None:
    # Field 99 of the answer, of the pod and of the container, as a string.
    unknown = bytes([0x9A, 0x06, 0x03]) + b"new"
    container = bytes([0x0A, 0x01]) + b"a" + unknown
    pod = bytes([0x0A, 0x01]) + b"p" + bytes([0x12, 0x01]) + b"d" + bytes([0x1A, len(container)]) + container + unknown
    answer = ListPodResourcesResponse.FromString(bytes([0x0A, len(pod)]) + pod + unknown)
    after = merged(answer, GPUS).answer
    assert after.SerializeToString().count(unknown) == 3
    assert after.pod_resources[0].containers[0].devices


KEYS = st.sampled_from(["gpu", "minor", "id", "extension", "vfs", "busID"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(JSON.map(json.dumps) | st.text(max_size=20), JSON.map(json.dumps) | st.text(max_size=20))
def test_no_annotation_breaks_the_reading(allocated: str, shares: str) -> None:
    annotations = {names.ANNOTATION_DEVICE_ALLOCATED: allocated, names.ANNOTATION_CONTAINER_DEVICES: shares}
    read = devices_of_containers(annotations, ["a", "b"])
    assert isinstance(read, Problem) or all(read.values())


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 3), max_size=4, unique=True), max_size=3),
    st.lists(st.integers(0, 3), max_size=4, unique=True),
)
def test_a_container_never_has_what_its_pod_has_not(shares: dict[str, list[int]], minors: list[int]) -> None:
    allocated = {"gpu": [{"minor": minor, "id": f"GPU-{minor}"} for minor in minors]}
    wanted = {name: {"gpu": [{"minor": minor} for minor in mine]} for name, mine in shares.items()}
    result = merged(a_pod("a", "b", "c"), allocated, wanted)
    said = {name for mine in ids(result).values() for listed in mine.values() for name in listed}
    assert said <= {f"GPU-{minor}" for minor in minors}
    if shares and minors and all(set(mine) <= set(minors) for mine in shares.values()):
        assert said == {f"GPU-{minor}" for mine in shares.values() for minor in mine}
