"""The cluster and the pods of the race, the same for every contender but for `schedulerName`.

Nodes: 32 cores, 256 GiB, 110 pods, in three zones. Pods: 100 millicores and 500 MiB as in Kubernetes' own
scheduler_perf, varied a little so that nodes do not stay alike. A shape adds a constraint to each of them.

For a preemption every node is full of `LOW_ON_A_NODE` pods but for what the warm-up needs; a pod of high priority needs
as much as `VICTIMS` of them. They end at once when they are deleted, since no kubelet is there to say that they did.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CRDS = Path(__file__).parents[3] / "k8s" / "crds"
NAMESPACES = ("berth-system", "race")
ZONES = 3
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PLAIN, SPREAD, APART = "plain", "spread", "anti-affinity"
SHAPES = (PLAIN, SPREAD, APART)
"""What all pods of a race carry: nothing; a hard spread over zones; a required anti-affinity within their app."""
MAX_SKEW = 1
APP_PODS = 10
"""Pods of an app that keeps apart."""
LOW_ON_A_NODE = 4
LOW_MILLI = 7_900
VICTIMS = 2
HIGH_MILLI = VICTIMS * LOW_MILLI + 100
HIGH_PRIORITY = "race-high"
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
            HOST: name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": "region",
            ZONE: f"zone-{number % ZONES}",
        }
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [ready]}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        yield Item(name, "/api/v1/nodes", _json(body))


def pods(prefix: str, count: int, scheduler: str, shape: str = PLAIN) -> Iterator[Item]:
    """Pods of one container; their names begin with `prefix`."""
    for number in range(count):
        requests = {"cpu": f"{80 + 10 * (number % 5)}m", "memory": f"{400 + 50 * (number % 5)}Mi"}
        app = f"{prefix}-{number // APP_PODS}" if shape == APART else prefix
        yield _pod(f"{prefix}-{number:06d}", app, requests, schedulerName=scheduler, **_constraint(shape, app))


def _constraint(shape: str, app: str) -> dict[str, Any]:
    """What a shape adds to a pod's spec."""
    selector = {"matchLabels": {"app": app}}
    if shape == SPREAD:
        hard = {"maxSkew": MAX_SKEW, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [{**hard, "labelSelector": selector}]}
    if shape == APART:
        term = {"topologyKey": HOST, "labelSelector": selector}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {}


def priority_class() -> Item:
    """The class of pods for which others leave."""
    meta = {"name": HIGH_PRIORITY}
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1_000}
    return Item(HIGH_PRIORITY, "/apis/scheduling.k8s.io/v1/priorityclasses", _json(body))


def low_pods(node_count: int) -> Iterator[Item]:
    """Pods that fill every node, on it from the beginning; no contender has bound them."""
    requests = {"cpu": f"{LOW_MILLI}m", "memory": "1000Mi"}
    for node in range(node_count):
        for number in range(LOW_ON_A_NODE):
            more = {"nodeName": f"node-{node:05d}", "terminationGracePeriodSeconds": 0}
            yield _pod(f"low-{node:05d}-{number}", "low", requests, schedulerName="before-the-race", **more)


def high_pods(count: int, scheduler: str) -> Iterator[Item]:
    """Pods for which others have to leave."""
    requests = {"cpu": f"{HIGH_MILLI}m", "memory": "2000Mi"}
    for number in range(count):
        more = {"priorityClassName": HIGH_PRIORITY}
        yield _pod(f"high-{number:06d}", "high", requests, schedulerName=scheduler, **more)


def _pod(name: str, app: str, requests: dict[str, str], **spec: Any) -> Item:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "race", "labels": {"app": app}},
        "spec": {"containers": [container], **spec},
    }
    return Item(name, "/api/v1/namespaces/race/pods", _json(body))


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


def misplaced(shape: str, nodes_list: Any, pods_list: Any) -> list[str]:
    """Pods that break what their shape asks for; from two decoded lists. Nobody may have left meanwhile."""
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in nodes_list["items"]}
    on: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods_list["items"]:
        node = pod["spec"].get("nodeName")
        if node in zones:
            on[pod["metadata"]["labels"]["app"]][zones[node] if shape == SPREAD else node] += 1
    if shape == SPREAD:
        every = sorted(set(zones.values()))
        counts = {app: [found[zone] for zone in every] for app, found in on.items()}
        skews = {app: max(each) - min(each) for app, each in counts.items()}
        return [f"{app} has a skew of {skew}" for app, skew in skews.items() if skew > MAX_SKEW]
    if shape == APART:
        return [
            f"{count} pods of {app} are on {node}" for app, f in on.items() for node, count in f.items() if count > 1
        ]
    return []


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
