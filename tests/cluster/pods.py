"""Pods that the acts make, and the strategies that they set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.node import PAUSE_IMAGE
from tests.cluster.placing import HOME

from berth.contracts import names

BATCH = {names.LABEL_QOS: "BE", names.LABEL_PRIORITY_CLASS: "koord-batch"}
ONLINE = {names.LABEL_QOS: "LS", names.LABEL_PRIORITY_CLASS: "koord-prod"}
CONFIG = "/api/v1/namespaces/berth-system/configmaps/slo-controller-config"


def create(
    cluster: Cluster,
    name: str,
    *arguments: str,
    labels: Mapping[str, str] = ONLINE,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    folder: str = "",
) -> None:
    """Create a pod of Berth's with one container. `folder`: of the node, shown at /data."""
    container: dict[str, Any] = {
        "name": "main",
        "image": PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "args": list(arguments),
        "env": [{"name": "MARK", "value": f"pod-{name}"}],
        "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})},
    }
    spec: dict[str, Any] = {
        "schedulerName": names.SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    if folder:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "data", "hostPath": {"path": folder, "type": "Directory"}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME, "labels": {"app": name, **labels}},
        "spec": spec,
    }
    cluster.call("POST", f"/api/v1/namespaces/{HOME}/pods", pod)


def run(cluster: Cluster, name: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """The pod, once it runs."""
    create(cluster, name, *arguments, **more)
    (pod,) = cluster.until_running(HOME, f"app={name}", 1)
    return pod


def configure(cluster: Cluster, **sections: Any) -> None:
    """Set sections of the strategies: `resource_threshold` is `resource-threshold-config`. None takes one away."""
    data = {
        f"{name.replace('_', '-')}-config": None if value is None else json.dumps(value)
        for name, value in sections.items()
    }
    if cluster.get(CONFIG):
        cluster.call("PATCH", CONFIG, {"data": data})
        return
    home, _, name = CONFIG.rpartition("/")
    new = {key: text for key, text in data.items() if text is not None}
    cluster.call("POST", home, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": new})
