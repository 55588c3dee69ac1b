"""The cluster and the pods of the race, the same for every contender but for `schedulerName`.

Nodes: 32 cores, 256 GiB, 110 pods, in three zones. Pods: 100 millicores and 500 MiB as in Kubernetes' own
scheduler_perf, varied a little so that nodes do not stay alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CRDS = Path(__file__).parents[3] / "k8s" / "crds"
NAMESPACES = ("berth-system", "race")
ZONES = 3
_CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"}


class Item(NamedTuple):
    """An object to create: its name, its collection's path, its JSON."""

    name: str
    path: str
    body: bytes


def namespaces() -> Iterator[Item]:
    """Where the pods are, and where cluster-writer keeps its Lease."""
    for name in NAMESPACES:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        yield Item(name, "/api/v1/namespaces", _json(body))


def crds() -> Iterator[Item]:
    """The resource definitions that Berth's manifests install."""
    for file in sorted(CRDS.glob("*.json")):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        yield Item(json.loads(file.read_bytes())["metadata"]["name"], path, file.read_bytes())


def nodes(count: int) -> Iterator[Item]:
    """Ready nodes, empty, without taints."""
    for number in range(count):
        name = f"node-{number:05d}"
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": "region",
            "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
        }
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [ready]}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        yield Item(name, "/api/v1/nodes", _json(body))


def pods(prefix: str, count: int, scheduler: str) -> Iterator[Item]:
    """Plain pods of one container; their names begin with `prefix`."""
    for number in range(count):
        name = f"{prefix}-{number:06d}"
        requests = {"cpu": f"{80 + 10 * (number % 5)}m", "memory": f"{400 + 50 * (number % 5)}Mi"}
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "race", "labels": {"app": prefix}},
            "spec": {"schedulerName": scheduler, "containers": [container]},
        }
        yield Item(name, "/api/v1/namespaces/race/pods", _json(body))


def overfull(nodes_list: Any, pods_list: Any) -> list[str]:
    """Nodes that were given more than they have, and pods on nodes that do not exist; from two decoded lists."""
    capacity = {node["metadata"]["name"]: [32_000, 256 * 1024, 110] for node in nodes_list["items"]}
    wrong = []
    for pod in pods_list["items"]:
        node = pod["spec"].get("nodeName")
        if node and node not in capacity:
            wrong.append(f"{pod['metadata']['name']} is on {node}, which does not exist")
        elif node:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            left = capacity[node]
            left[0] -= int(requests["cpu"].removesuffix("m"))
            left[1] -= int(requests["memory"].removesuffix("Mi"))
            left[2] -= 1
    return wrong + [f"{node} is overfull: {left}" for node, left in capacity.items() if min(left) < 0]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
