"""What selects or owns random pods: Services, ReplicaSets, StatefulSets, ReplicationControllers.

kube-scheduler spreads their pods by default (`defaultingType: System`).
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.parity.world import NAMESPACES, Manifest

VERSIONS: Final = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}
APPS: Final = ("web", "db", "cache")


def attach(rng: Random, pods: list[Manifest]) -> list[Manifest]:
    """Give some pods an owner; the Services and owners that there are."""
    made = [_service(rng, f"service{number}") for number in range(rng.randint(0, 3))]
    owners = [_owner(rng, f"owner{number}") for number in range(rng.randint(0, 4))]
    for pod in pods:
        mine = [each for each in owners if each["metadata"]["namespace"] == pod["metadata"]["namespace"]]
        if mine and rng.random() < 0.6:
            owner = rng.choice(mine)
            reference = {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": f"uid-{owner['metadata']['name']}",
                "controller": True,
            }
            pod["metadata"]["ownerReferences"] = [reference]
    return [*made, *owners]


def _service(rng: Random, name: str) -> Manifest:
    spec: dict[str, Any] = {"clusterIP": "None"}
    if rng.random() < 0.9:
        spec["selector"] = {"app": rng.choice(APPS)}
        if rng.random() < 0.2:
            spec["selector"]["tier"] = rng.choice(("a", "b"))
    meta = {"name": name, "namespace": rng.choice(NAMESPACES)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _owner(rng: Random, name: str) -> Manifest:
    kind = rng.choice(tuple(VERSIONS))
    app = rng.choice(APPS)
    selector: dict[str, Any] = {"app": app}
    if kind != "ReplicationController":
        selector = {"matchLabels": selector}
        if rng.random() < 0.3:
            selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": sorted({app, "web"})}]}
    container = {"name": "c", "image": "app:1"}
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}
    spec: dict[str, Any] = {"replicas": 0, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "none"
    meta = {"name": name, "namespace": rng.choice(NAMESPACES)}
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": meta, "spec": spec}
