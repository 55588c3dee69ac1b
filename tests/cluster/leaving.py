"""Berth is deleted again; what the API server holds is compared with what it held before."""

from __future__ import annotations

import time
from typing import Any

from tests.cluster import groups
from tests.cluster.cluster import Cluster
from tests.cluster.inside import OVERLAY
from tests.cluster.node import NAME
from tests.cluster.placing import HOME

from berth.contracts import names

NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PASSING = {"events", "leases", "pods", "endpoints", "endpointslices", "replicasets", "controllerrevisions"}
"""Kinds whose objects come and go by themselves."""


def everything(cluster: Cluster) -> set[str]:
    """Path of every object but passing ones and those of the user."""
    found = set()
    for base in _groups(cluster):
        for kind in cluster.call("GET", base)["resources"]:
            plural = kind["name"]
            if "list" not in kind["verbs"] or "/" in plural or plural in PASSING:
                continue
            for item in cluster.call("GET", f"{base}/{plural}", accept=NAMES_ONLY)["items"] or []:
                meta = item["metadata"]
                if meta.get("namespace", meta["name"]) != HOME:
                    found.add(f"{base}/{plural}/{meta.get('namespace', '')}/{meta['name']}")
    return found


def settled(cluster: Cluster) -> set[str]:
    """Everything, once Kubernetes' own controllers make no more."""

    def look() -> set[str]:
        found = everything(cluster)
        time.sleep(2)
        return found if found == everything(cluster) else set()

    return cluster.until(look, "Kubernetes to settle")


def _groups(cluster: Cluster) -> list[str]:
    groups = cluster.call("GET", "/apis")["groups"]
    return ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)]


def node_fields(cluster: Cluster) -> dict[str, Any]:
    """What others than its kubelet could have changed of the node."""
    node = cluster.get(f"/api/v1/nodes/{NAME}")
    return {
        "labels": node["metadata"].get("labels", {}),
        # A node that has lent keeps the note of what it lent before third parties: it says that this is nothing now.
        "annotations": sorted(set(node["metadata"].get("annotations", {})) - {names.ANNOTATION_ORIGIN_ALLOCATABLE}),
        # A zero and a missing name mean the same: kubelet turns one into the other.
        "allocatable": sorted(name for name, amount in node["status"]["allocatable"].items() if amount != "0"),
        "taints": node["spec"].get("taints", []),
    }


def leave(cluster: Cluster, before: set[str], node: dict[str, Any]) -> None:
    """Delete the manifests; pods that run stay, and nothing else."""
    running = {pod["metadata"]["uid"] for pod in cluster.pods(HOME, "app=web")}
    cluster.kubectl("delete", "-k", str(OVERLAY), "--wait=true", "--timeout=180s")
    cluster.kubectl("delete", "persistentvolume", "bus")
    cluster.until(lambda: not everything(cluster) - before, "everything of Berth to be gone", timeout_s=60)
    assert everything(cluster) == before, before - everything(cluster)
    left = node_fields(cluster)
    assert left == node, f"the node was {node}, and is {left}"
    assert groups.quota_us() == groups.UNLIMITED
    still = cluster.until_running(HOME, "app=web", 3)
    assert {pod["metadata"]["uid"] for pod in still} == running, "pods that ran were touched"
    cluster.report.step(
        "kubectl delete -k with the same manifests: every other object is as before (namespaces, custom resource "
        f"definitions, cluster roles, policies, priority classes, ...; {len(before)} objects compared), "
        "the Deployment's pods run on"
    )
