"""What kubelet answers to List and GetAllocatableResources, and what records and the node's inventory add to it.

Kubelet knows the devices that it gave out itself. Those that were chosen where the pod was placed are known by the
pod's annotations alone, and are added to the container that has them. Nothing of kubelet's is taken away; what it says
itself of a device is not said again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.kubelet.core.allocated import AllocatedDevice, devices_of_containers
from berth.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
    NUMANode,
    PodResources,
    TopologyInfo,
)

Pods = Mapping[tuple[str, str], Mapping[str, str]]
"""The annotations of each pod of the node, by namespace and name."""


class Description(NamedTuple):
    """How a device is shown: the resource it counts as (empty: it is not shown) and its NUMA node, if known."""

    resource: str
    numa_node: int | None = None


Describe = Callable[[AllocatedDevice], Description]

BY_KIND: Final[Mapping[str, str]] = {"gpu": names.NVIDIA_GPU, "rdma": names.RDMA}


def by_kind(device: AllocatedDevice) -> Description:
    """As Koordinator shows devices: cards as `nvidia.com/gpu`, NICs as `koordinator.sh/rdma`, nothing else."""
    return Description(BY_KIND.get(device.kind, ""))


class Merged(NamedTuple):
    """The answer, and what of the records could not be read; such a pod stays as kubelet says."""

    answer: ListPodResourcesResponse
    problems: tuple[Problem, ...] = ()


def merge(answer: ListPodResourcesResponse, pods: Pods, describe: Describe = by_kind) -> Merged:
    """Kubelet's answer with the devices of these pods; `answer` is left as it is. A pod that is not among them stays
    as kubelet says. A problem's field begins with `NAMESPACE/NAME`."""
    merged = ListPodResourcesResponse()
    merged.CopyFrom(answer)
    problems: list[Problem] = []
    for pod in merged.pod_resources:
        annotations = pods.get((pod.namespace, pod.name))
        if not annotations:
            continue
        devices = devices_of_containers(annotations, [each.name for each in pod.containers])
        if isinstance(devices, Problem):
            problems.append(Problem(field=f"{pod.namespace}/{pod.name} {devices.field}", message=devices.message))
        elif devices:
            _add(pod, devices, describe)
    return Merged(merged, tuple(problems))


def with_devices(
    answer: AllocatableResourcesResponse, devices: Iterable[AllocatedDevice], describe: Describe = by_kind
) -> AllocatableResourcesResponse:
    """What kubelet has to give out, and these devices of the node, which are given out where pods are placed; `answer`
    is left as it is. A device that kubelet gives out itself is not said again."""
    merged = AllocatableResourcesResponse()
    merged.CopyFrom(answer)
    said = {(each.resource_name, name) for each in merged.devices for name in each.device_ids}
    if added := _described(devices, said, describe):
        merged.devices.extend(added)
        merged.devices.sort(key=lambda each: each.resource_name)
    return merged


def _add(pod: PodResources, devices: Mapping[str, tuple[AllocatedDevice, ...]], describe: Describe) -> None:
    said = {(each.resource_name, name) for mine in pod.containers for each in mine.devices for name in each.device_ids}
    seen: set[str] = set()
    for container in pod.containers:
        if container.name not in seen:
            seen.add(container.name)
            _add_to(container, devices.get(container.name, ()), said, describe)


def _add_to(
    container: ContainerResources, devices: Iterable[AllocatedDevice], said: set[tuple[str, str]], describe: Describe
) -> None:
    added = _described(devices, said, describe)
    if added:
        container.devices.extend(added)
        container.devices.sort(key=lambda each: each.resource_name)


def _described(
    devices: Iterable[AllocatedDevice], said: set[tuple[str, str]], describe: Describe
) -> list[ContainerDevices]:
    """Devices as they are shown, those of one resource and NUMA node together."""
    added: dict[Description, list[str]] = {}
    for device in devices:
        description = describe(device)
        ids = [each for each in device.ids if (description.resource, each) not in said] if description.resource else []
        if ids:
            added.setdefault(description, []).extend(ids)
    return [_shown(description, ids) for description, ids in added.items()]


def _shown(description: Description, ids: Iterable[str]) -> ContainerDevices:
    nodes = [] if description.numa_node is None else [NUMANode(ID=description.numa_node)]
    topology = TopologyInfo(nodes=nodes) if nodes else None
    return ContainerDevices(resource_name=description.resource, device_ids=list(dict.fromkeys(ids)), topology=topology)
