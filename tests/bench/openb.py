"""The openb trace in the benchmarks: its folder, the orders in which its pods arrive, the solver's view of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from mixes import pods_of

from berth.cluster_watcher.core.nodes import node_of
from berth.contracts import kube, names, subjects
from berth.placement_solver.cluster_view import ClusterView
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pods import pod_of
from berth.simcluster.openb import TraceNode, TracePod, read_nodes
from berth.testing.builders import GI, gpu_slots
from berth.testing.feed import Feed

MEMORY: Final = {"G3": 80 * GI, "G2": 32 * GI, "A10": 24 * GI, "V100M32": 32 * GI}
"""Of a card of these models; the others have 16 GiB."""
OVERLOAD: Final = 1.3
"""GPUs that arrive, as a part of those that there are."""


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The argument for the folder of the trace's CSV files."""
    found = os.environ.get("BERTH_TRACE_DIR")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(found) if found else None)


def has_folder(folder: Path | None) -> bool:
    """Whether there is one; else it is said how to name it."""
    if folder is None:
        print("skipped: no folder is given, and BERTH_TRACE_DIR names none")
    return folder is not None


def gpu_milli(pod: TracePod) -> int:
    """Thousandths of cards that it asks for."""
    return pod.request.gpus * pod.request.gpu_milli


def gpus_milli(nodes: Sequence[TraceNode]) -> int:
    """Thousandths of cards that there are."""
    return 1000 * sum(node.gpus for node in nodes)


class Arrivals(NamedTuple):
    """One experiment of filling: nodes in the order that decides ties, and pods as they arrive."""

    nodes: list[TraceNode]
    workload: list[TracePod]
    pods: list[TracePod]


def arrivals(folder: Path, trace: str, seed: int) -> Arrivals:
    """The pods of a trace shuffled, and more drawn from them until they ask for 1.3 times the GPUs.

    By `orders/TRACE-SEED.txt` of the folder, where it has that file (the published orders), else by a random one.
    """
    nodes, workload = read_nodes(folder), pods_of(folder, trace)
    file = folder / "orders" / f"{trace}-{seed}.txt"
    if file.exists():
        first, second = file.read_text().splitlines()[:2]
        order, of_nodes = [[int(word) for word in line.split()] for line in (first, second)]
    else:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(workload)).tolist()
        arrived, wanted = sum(map(gpu_milli, workload)), OVERLOAD * gpus_milli(nodes)
        while True:
            drawn = int(rng.integers(len(workload)))
            arrived += gpu_milli(workload[drawn])
            if arrived > wanted:
                break
            order.append(drawn)
        of_nodes = rng.permutation(len(nodes)).tolist()
    pods = [workload[index]._replace(name=f"p{place:06}") for place, index in enumerate(order)]
    return Arrivals([nodes[index] for index in of_nodes], workload, pods)


class Driven(Feed):
    """A view with the nodes of the trace."""

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        self.cluster = ClusterView([names.SCHEDULER_NAME], "s1")
        self.cluster.solver.tells = False  # as in rounds
        super().__init__(self.cluster)
        for index, each in enumerate(nodes):
            self.version += 1
            item = msgspec.json.decode(msgspec.json.encode(each.manifests(index=index)[0]), type=kube.Node)
            self.state(subjects.named_key("node", each.name), node_of(item, self.version))
            if each.gpus:
                self.devices(each.name, gpu_slots(each.gpus, MEMORY.get(each.model, 16 * GI)))
        self.complete()

    def add(self, pods: Sequence[TracePod]) -> None:
        """Pods that wait."""
        for each in pods:
            self.version += 1
            manifest = {**each.manifest(), "apiVersion": "v1", "kind": "Pod"}
            manifest["metadata"]["uid"] = f"uid-{each.name}"
            item = msgspec.json.decode(msgspec.json.encode(manifest), type=PodItem)
            self.state(subjects.namespaced_key("pod", "default", each.name), pod_of(item, self.version))
