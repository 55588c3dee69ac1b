"""A pod of high priority comes to a full node: a container of low priority is ended, in its own time, and it runs."""

from __future__ import annotations

import calendar
import time
from pathlib import Path
from typing import Any

from tests.cluster import groups
from tests.cluster.cluster import Cluster
from tests.cluster.listening import Outside
from tests.cluster.node import NAME
from tests.cluster.placing import HOME, done, placed_by_berth

from berth.contracts import names
from berth.resources.quantity import parse_milli

LOW = f"/api/v1/namespaces/{HOME}/pods/low"


def displace(cluster: Cluster, outside: Outside) -> None:
    """One pod leaves; every other one stays."""
    farewell = cluster.space.home / "farewell"
    farewell.mkdir()
    farewell.chmod(0o777)  # the container is nobody here
    cpu = f"{free(cluster, 'cpu')}m"
    cluster.apply("low-and-high.yaml", CPU=cpu, PATH=str(farewell))
    (low,) = cluster.until_running(HOME, "app=low", 1)
    placed_by_berth([low])
    uid = low["metadata"]["uid"]
    assert groups.has_pod(uid, "burstable")
    others = _uids(cluster) - {uid}
    cluster.report.step(f"pod of low priority: runs, takes all {cpu} CPU that the node has left")

    cluster.apply("high.yaml", CPU=cpu)
    leaving = cluster.until(lambda: _if_leaving(cluster), "the pod of low priority to be told to end")
    assert _disrupted(leaving) == "PreemptionByScheduler"
    why = outside.berth("why", f"{HOME}/high")
    said = " ".join(why.stdout.split())
    assert f"nominated to {NAME}, waiting for {HOME}/low to leave it" in said, why.stdout + why.stderr
    assert cluster.get(f"/api/v1/namespaces/{HOME}/pods/high")["status"]["nominatedNodeName"] == NAME
    assert groups.has_pod(uid, "burstable"), "it was given no time to end"
    cluster.report.step(f"pod of high priority: pending, `nominated to {NAME}, waiting for {HOME}/low to leave it`")

    (high,) = cluster.until_running(HOME, "app=high", 1)
    placed_by_berth([high])
    outside.until_bound([high])
    cluster.until(lambda: not cluster.get(LOW), "the pod of low priority to be gone")
    cluster.until(lambda: not groups.has_pod(uid, "burstable"), "the control group of the victim to be gone")
    ended = _ended(farewell)
    assert _started(high) >= int(ended), "it ran before the other had ended"
    assert others <= _uids(cluster), "another pod had to leave"
    nominated = [each["name"] for each in outside.events() if each["type"] == "placement.nominated.v1"]
    assert nominated == ["high"], nominated
    cluster.report.step("pod of high priority: runs once the container of the other has ended by itself")
    done(cluster, "high")
    cluster.kubectl("delete", "priorityclass", "work-low", "work-high")


def free(cluster: Cluster, resource: str) -> int:
    """What of the node no pod has asked for, in thousandths."""
    node = cluster.get(f"/api/v1/nodes/{NAME}")
    pods = [pod for pod in cluster.items("/api/v1/pods") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    asked = [
        parse_milli(container.get("resources", {}).get("requests", {}).get(resource, "0"))
        for pod in pods
        for container in pod["spec"]["containers"]
    ]
    return parse_milli(node["status"]["allocatable"][resource]) - sum(asked)


def _uids(cluster: Cluster) -> set[str]:
    """Pods that nobody has asked to end."""
    pods = cluster.items("/api/v1/pods")
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def _if_leaving(cluster: Cluster) -> dict[str, Any] | None:
    pod = cluster.get(LOW)
    return pod if "deletionTimestamp" in pod.get("metadata", {}) else None


def _disrupted(pod: dict[str, Any]) -> str:
    assert names.ANNOTATION_EVICTED_FOR in pod["metadata"]["annotations"]
    return next(each["reason"] for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget")


def _ended(farewell: Path) -> float:
    """When the victim wrote its last words, which it could not have done when it was killed."""
    note = farewell / "note"
    assert note.read_text() == "ended by itself\n"
    return note.stat().st_mtime


def _started(pod: dict[str, Any]) -> float:
    (status,) = pod["status"]["containerStatuses"]
    return calendar.timegm(time.strptime(status["state"]["running"]["startedAt"], "%Y-%m-%dT%H:%M:%SZ"))
