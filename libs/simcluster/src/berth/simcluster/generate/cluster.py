"""A synthetic heterogeneous GPU cluster: Nodes and their Devices."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from berth.simcluster.generate.build import device_manifest, node_manifest
from berth.simcluster.generate.shares import NODE_CLASSES, NodeClass
from berth.simcluster.store.objects import Json

NODES_LIMIT = 200_000


class Weighted(Protocol):
    """Things of one kind, and how many of them there are among all."""

    @property
    def weight(self) -> int:
        """In proportion to the weights of the others."""


W = TypeVar("W", bound=Weighted)


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How the cluster is to be. `classes` are chosen by their weights; the default is the openb trace's mix."""

    nodes: int = 100
    classes: tuple[NodeClass, ...] = NODE_CLASSES
    cpu_only_share: float = 0.0  # of the nodes, without GPUs
    pods_per_node: int = 110
    zones: int = 3
    rdma: bool = False
    prefix: str = "node"

    def problem(self) -> str:
        """What is wrong; empty if nothing."""
        if not 0 <= self.nodes <= NODES_LIMIT:
            return f"nodes: must be between 0 and {NODES_LIMIT}"
        if not 0.0 <= self.cpu_only_share <= 1.0:
            return "cpu_only_share: must be between 0 and 1"
        if not self.classes or any(each.weight < 0 for each in self.classes):
            return "classes: at least one, with weights that are not negative"
        if self.pods_per_node < 1 or self.zones < 1:
            return "pods_per_node, zones: must be at least 1"
        return ""


def generate_cluster(shape: ClusterShape, *, seed: int = 0) -> list[Json]:
    """Node manifests, then Device manifests. Raises ValueError naming the field of the shape that is wrong."""
    problem = shape.problem()
    if problem:
        raise ValueError(problem)
    chosen = _choose(shape, random.Random(seed))
    nodes: list[Json] = []
    devices: list[Json] = []
    for index, each in enumerate(chosen):
        name = f"{shape.prefix}-{index:05d}"
        zone = f"zone-{index % shape.zones}"
        nodes.append(
            node_manifest(
                name,
                cpu_milli=each.cpu_milli,
                memory_mib=each.memory_mib,
                model=each.model if each.gpus else "",
                pods=shape.pods_per_node,
                zone=zone,
                index=index,
            )
        )
        if each.gpus:
            devices.append(device_manifest(name, each.model, each.gpus, rdma=shape.rdma))
    return nodes + devices


def _choose(shape: ClusterShape, rng: random.Random) -> list[NodeClass]:
    """Exact shares first (so that a small cluster has the mix too), then shuffled."""
    plain = NodeClass("", 0, 96_000, 393_216, 1)
    cpu_only = round(shape.nodes * shape.cpu_only_share)
    chosen = [plain] * cpu_only + apportion(shape.classes, shape.nodes - cpu_only)
    rng.shuffle(chosen)
    return chosen


def apportion(classes: Sequence[W], total: int) -> list[W]:
    """`total` things in the proportion of the weights, by largest remainder (Hamilton's method)."""
    all_weights = sum(each.weight for each in classes) or 1
    exact = [total * each.weight / all_weights for each in classes]
    counts = [int(share) for share in exact]
    by_remainder = sorted(range(len(classes)), key=lambda i: (counts[i] - exact[i], i))
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return [each for each, count in zip(classes, counts, strict=True) for _ in range(count)]
