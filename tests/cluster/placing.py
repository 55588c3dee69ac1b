"""What a user does with it: a Deployment, a gang, a pod over its quota, a reservation with its owner."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.listening import Outside
from tests.cluster.node import NAME

from berth.contracts import names

HOME = "work"
QUOTAS = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{HOME}/elasticquotas"
RESERVATION = "/apis/scheduling.koordinator.sh/v1alpha1/reservations/nightly"


def placed_by_berth(pods: list[dict[str, Any]]) -> None:
    """Each of them is on the node, by a plan of Berth's."""
    for pod in pods:
        assert pod["spec"]["nodeName"] == NAME
        assert note(pod, names.ANNOTATION_PLAN), f"{pod['metadata']['name']} was placed by somebody else"


def note(pod: dict[str, Any], name: str) -> str:
    """An annotation, or nothing."""
    return str(pod["metadata"].get("annotations", {}).get(name, ""))


def done(cluster: Cluster, *pods: str) -> None:
    """They have shown what they should: capacity for others, on a node that may be small."""
    cluster.kubectl("delete", "pod", *pods, "-n", HOME, "--wait=true")


def deployment(cluster: Cluster, outside: Outside) -> None:
    """Three pods of a Deployment run."""
    cluster.apply("deployment.yaml")
    pods = cluster.until_running(HOME, "app=web", 3)
    placed_by_berth(pods)
    outside.until_bound(pods)
    cluster.report.step("Deployment: 3 pods placed and running, their events seen outside of the cluster")


def gang(cluster: Cluster, outside: Outside) -> None:
    """A Job whose four pods start together or not at all."""
    cluster.apply("gang.yaml")
    pods = cluster.until_running(HOME, f"{names.LABEL_POD_GROUP}=train", 4)
    placed_by_berth(pods)
    assert len({note(pod, names.ANNOTATION_PLAN) for pod in pods}) == 1, "not one decision"
    assert {note(pod, names.ANNOTATION_BIND_GANG_COUNT) for pod in pods} == {"4"}
    outside.until_bound(pods)
    cluster.report.step("gang Job: 4 pods placed in one plan, and running")
    path = f"/apis/batch/v1/namespaces/{HOME}/jobs/train"
    cluster.until(lambda: cluster.get(path).get("status", {}).get("succeeded") == 4, "the Job to succeed")
    cluster.report.step("gang Job: completed")


def quota(cluster: Cluster, outside: Outside) -> None:
    """A pod over its quota waits and is told why; it runs once the quota is raised."""
    cluster.apply("quota.yaml")
    (first,) = cluster.until_running(HOME, "app=first-of-team", 1)
    placed_by_berth([first])
    assert note(first, names.ANNOTATION_QUOTA) == "/team"
    cluster.apply("over-quota.yaml")
    told = cluster.until(lambda: refusal(cluster, "app=second-of-team"), "the pod over quota to be refused")
    assert "quota team" in told, told
    why = outside.berth("why", f"{HOME}/second-of-team")
    assert why.returncode == 1, why.stderr
    assert "quota team" in " ".join(why.stdout.split()), why.stdout
    cluster.report.step(f"pod over quota: pending, told `{told.split(' To repair')[0]}`")
    amounts = {"cpu": "80m", "memory": "64Mi"}
    cluster.call("PATCH", f"{QUOTAS}/team", {"spec": {"min": amounts, "max": amounts}})
    pods = cluster.until_running(HOME, "app=second-of-team", 1)
    placed_by_berth(pods)
    outside.until_bound(pods)
    cluster.report.step("pod over quota: placed and running once the quota was raised")
    done(cluster, "first-of-team", "second-of-team")


def refusal(cluster: Cluster, labels: str) -> str:
    """What a pod is told about why it is not placed."""
    (pod,) = cluster.pods(HOME, labels)
    assert not pod["spec"].get("nodeName"), "it was placed"
    conditions = pod["status"].get("conditions", [])
    found = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
    return found[0] if found else ""


def reservation(cluster: Cluster, outside: Outside) -> None:
    """Capacity is held for an owner, who gets it."""
    cluster.apply("reservation.yaml")
    found = cluster.until(lambda: _available(cluster), "the reservation to be available")
    assert found["status"]["nodeName"] == NAME
    cluster.apply("owner.yaml")
    pods = cluster.until_running(HOME, "app=nightly-run", 1)
    placed_by_berth(pods)
    allocated = json.loads(note(pods[0], names.ANNOTATION_RESERVATION_ALLOCATED))
    assert allocated == {"name": "nightly", "uid": found["metadata"]["uid"]}
    outside.until_bound(pods)
    cluster.report.step("Reservation: available, then used by its owner, which runs")
    done(cluster, "nightly-run")


def _available(cluster: Cluster) -> dict[str, Any] | None:
    found = cluster.get(RESERVATION)
    return found if found.get("status", {}).get("phase") == "Available" else None
