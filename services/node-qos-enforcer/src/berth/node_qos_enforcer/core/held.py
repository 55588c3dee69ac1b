"""What kubelet says that containers hold, for the node's report: bounded, in order, without those that hold nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.node_report import HeldByContainer
from berth.kubelet.podresources_pb2 import ContainerResources, ListPodResourcesResponse
from berth.rules.cpus.cpuset import CPU_MAX, format_cpuset, read_cpuset
from berth.rules.cpus.kubelet import HeldCpus

CONTAINERS_MAX: Final = 1_024
IDS_MAX: Final = 4_096
"""Ids of all containers together."""
TEXT_MAX: Final = 256
NO_PODS: Final[Mapping[str, tuple[str, str]]] = {}


def cpus_held(containers: Iterable[HeldByContainer]) -> tuple[HeldCpus, ...]:
    """The CPUs of their own that kubelet gave to pods, of what `held_of` found."""
    found = ((each, read_cpuset(each.cpus, "cpus")) for each in containers)
    return tuple(
        HeldCpus(each.namespace, each.pod, cpus) for each, cpus in found if cpus and not isinstance(cpus, Problem)
    )


def held_of(
    answer: ListPodResourcesResponse, pods: Mapping[str, tuple[str, str]] = NO_PODS
) -> tuple[tuple[HeldByContainer, ...], tuple[Problem, ...]]:
    """Who holds what. Too many, texts that are too long and CPUs that no machine has are left out, and named.

    `pods` are namespace and name by uid, as they were known before kubelet was asked: kubelet takes a pod in once its
    predecessor of the same name is gone, so what it says of the name is of this pod, or of one that comes after it.
    Where two bear the name, nobody can tell.
    """
    problems: list[Problem] = []
    bearers = Counter(pods.values())
    uids = {name: uid for uid, name in pods.items() if bearers[name] == 1}
    holders = sorted(
        (
            (pod.namespace, pod.name, container.name, container)
            for pod in answer.pod_resources
            for container in pod.containers
            if container.devices or container.cpu_ids
        ),
        key=lambda each: each[:3],
    )
    if len(holders) > CONTAINERS_MAX:
        problems.append(Problem(field="held", message=f"{len(holders)} containers; only {CONTAINERS_MAX} are reported"))
    found: list[HeldByContainer] = []
    left = IDS_MAX
    for namespace, pod, name, container in holders[:CONTAINERS_MAX]:
        field = f"held[{namespace[:64]}/{pod[:64]}/{name[:64]}]"
        devices = _devices(container, field, left, problems)
        left -= sum(len(ids) for ids in devices.values())
        cpus = [cpu for cpu in container.cpu_ids if 0 <= cpu <= CPU_MAX]
        if len(cpus) < len(container.cpu_ids):
            problems.append(Problem(field=f"{field}.cpus", message=f"has ids that are not between 0 and {CPU_MAX}"))
        texts = (namespace[:TEXT_MAX], pod[:TEXT_MAX], name[:TEXT_MAX])
        found.append(
            HeldByContainer(
                namespace=texts[0],
                pod=texts[1],
                container=texts[2],
                devices=devices,
                cpus=format_cpuset(cpus),
                uid=uids.get((namespace, pod), ""),
            )
        )
    return tuple(found), tuple(problems)


def _devices(container: ContainerResources, field: str, left: int, problems: list[Problem]) -> dict[str, list[str]]:
    """Kubelet lists a resource once for each NUMA node."""
    devices: dict[str, set[str]] = {}
    for each in container.devices:
        ids = {text for text in each.device_ids if 0 < len(text) <= TEXT_MAX}
        if len(ids) < len(set(each.device_ids)) or not 0 < len(each.resource_name) <= TEXT_MAX:
            problems.append(Problem(field=f"{field}.devices", message=f"has texts that are empty or above {TEXT_MAX}"))
        if ids and 0 < len(each.resource_name) <= TEXT_MAX:
            devices.setdefault(each.resource_name, set()).update(ids)
    if sum(map(len, devices.values())) > left:
        problems.append(Problem(field=f"{field}.devices", message=f"more than {IDS_MAX} ids of all containers"))
        return {}
    return {name: sorted(ids) for name, ids in sorted(devices.items())}
