"""Objects of the API server: where they are, how a GPU is written, and what a pod was told and given."""

from __future__ import annotations

import json
from typing import Any

from berth.contracts import names

Json = dict[str, Any]

PODS = "/api/v1/namespaces/{}/pods"
NODES = "/api/v1/nodes"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
NETWORKS = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/elasticquotas"


def gpu(minor: int, uuid: str, **more: Any) -> Json:
    """An entry of a Device: a healthy GPU of 16 GiB."""
    resources = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "16Gi"}
    return {"type": "gpu", "id": uuid, "minor": minor, "health": True, "resources": resources, **more}


def refusal_of(pod: Json) -> str:
    """The message of PodScheduled=False, if it is one of a refusal."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", "")) if condition.get("reason") == "Unschedulable" else ""
    return ""


def note(pod: Json, annotation: str) -> str:
    """An annotation of a pod; empty without it."""
    return str(pod["metadata"].get("annotations", {}).get(annotation, ""))


def devices_of(pod: Json) -> list[Json]:
    """The GPUs that a bound pod was given."""
    text = note(pod, names.ANNOTATION_DEVICE_ALLOCATED)
    found: list[Json] = json.loads(text).get("gpu", []) if text else []
    return found
