"""Puts a mixed cluster and its workload together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.inventory import NPU_TEMPLATES
from berth.rules.cpus.kubelet import NO_POLICY
from berth.simcluster.generate.build import SCHEDULER
from berth.simcluster.generate.cluster import apportion
from berth.simcluster.generate.mixed.machines import MACHINES
from berth.simcluster.generate.mixed.nodes import manifests
from berth.simcluster.generate.mixed.shapes import SHAPES, Asks, Shape
from berth.simcluster.store.objects import Json

LABEL_SHAPE: Final = "sim.berth.sh/shape"
"""Of a pod: its shape."""
LIMIT: Final = 200_000
NAMESPACE: Final = "default"
ZONES: Final = 3
POLICIES: Final = (*[NO_POLICY] * 18, "BestEffortPodLevel", "RestrictedContainerLevel")
"""Kubelet's NUMA policy, of so many machines each."""
NPU_SIZES: Final = """
huawei-Ascend-310P3:
  vir02: {koordinator.sh/gpu-memory: 6Gi, huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, huawei.com/npu-dvpp: 25}
"""
_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
_OWNER: Final = "sim.berth.sh/reservation"


@dataclass(frozen=True, slots=True)
class MixedShape:
    """How much there is to be."""

    nodes: int = 1000
    pods: int = 10_000

    def problem(self) -> str:
        """What is wrong; empty if nothing."""
        if not 1 <= self.nodes <= LIMIT:
            return f"nodes: must be between 1 and {LIMIT}"
        return "" if 0 <= self.pods <= LIMIT else f"pods: must be between 0 and {LIMIT}"


class Mixed(NamedTuple):
    """`cluster` are nodes with their devices and topologies, and what holds for all of them; `ahead` is what comes
    before the pods (PodGroups, Reservations), `pods` in the order in which they come; `gpus` is how many cards have
    compute in percent."""

    cluster: list[Json]
    ahead: list[Json]
    pods: list[Json]
    gpus: int


def generate_mixed(shape: MixedShape, *, seed: int = 0) -> Mixed:
    """Raises ValueError naming the field of the shape that is wrong."""
    problem = shape.problem()
    if problem:
        raise ValueError(problem)
    rng = random.Random(seed)
    machines = apportion(MACHINES, shape.nodes)
    rng.shuffle(machines)
    cluster = [*sizes_of_npus()]
    cluster += [
        manifest
        for index, machine in enumerate(machines)
        for manifest in manifests(
            machine,
            f"{machine.name}-{index:05d}",
            zone=f"zone-{index % ZONES}",
            policy=rng.choice(POLICIES),
            index=index,
        )
    ]
    units = _units(shape.pods)
    rng.shuffle(units)
    ahead: list[Json] = []
    pods: list[Json] = []
    for number, (each, members) in enumerate(units):
        _add(each, members, f"{each.name}-{number:05d}", rng, ahead, pods)
    gpus = sum(machine.cards for machine in machines if names.GPU_CORE in machine.amounts)
    return Mixed(cluster, ahead, pods, gpus)


def sizes_of_npus() -> Iterator[Json]:
    """The ConfigMap with the sizes that NPUs of this cluster may be cut to, and its namespace."""
    namespace, _, name = NPU_TEMPLATES.partition("/")
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    metadata = {"name": name, "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"data.yaml": NPU_SIZES}}


def _units(pods: int) -> list[tuple[Shape, int]]:
    """Each pod, or gang, that comes, with how many pods it is; what is too few for a gang comes one by one."""
    units = []
    chosen = apportion(SHAPES, pods)
    for shape in SHAPES:
        count = sum(1 for each in chosen if each is shape)
        whole, rest = divmod(count, shape.members)
        units += [(shape, shape.members)] * whole + [(shape, 1)] * rest
    return units


def _add(shape: Shape, members: int, name: str, rng: random.Random, ahead: list[Json], pods: list[Json]) -> None:
    asks = shape.make(rng)
    labels = {LABEL_SHAPE: shape.name}
    if members > 1:
        labels[_GROUP] = name
        ahead.append(
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"minMember": members, "scheduleTimeoutSeconds": 600},
            }
        )
    if shape.reserved:
        labels[_OWNER] = name
        ahead.append(_reservation(name, asks))
    pods += [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name if members == 1 else f"{name}-{member}",
                "namespace": NAMESPACE,
                "labels": {**asks.labels, **labels},
                "annotations": dict(asks.annotations),
            },
            "spec": _spec(asks),
        }
        for member in range(members)
    ]


def _reservation(name: str, asks: Asks) -> Json:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"namespace": NAMESPACE}, "spec": _spec(asks)},
            "owners": [{"labelSelector": {"matchLabels": {_OWNER: name}}}],
            "ttl": "24h",
            "allocateOnce": True,
        },
    }


def _spec(asks: Asks) -> Json:
    container: Json = {
        "name": "main",
        "image": "workload",
        "resources": {"requests": dict(asks.requests), "limits": dict(asks.requests)},
    }
    if asks.host_port:
        container["ports"] = [{"containerPort": asks.host_port, "hostPort": asks.host_port}]
    spec: Json = {"schedulerName": SCHEDULER, "restartPolicy": "Never", "containers": [container]}
    if asks.selector:
        spec["nodeSelector"] = dict(asks.selector)
    return spec
