"""Every pod of Berth is deleted once, and the bus restarted, while pods come: none is lost, none bound twice."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.installing import NODES, SYSTEM, until_ready, workloads
from tests.cluster.listening import Outside
from tests.cluster.placing import HOME, placed_by_berth

PAUSE_S = 1.0
AT_MOST = 400
LABELS = "app=load"


class Load:
    """A pod every second, each of them for a second."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.created: list[str] = []
        self._failure = ""

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            while not self._enough.wait(PAUSE_S) and len(self.created) < AT_MOST:
                name = f"load-{len(self.created)}"
                self._cluster.call("POST", f"/api/v1/namespaces/{HOME}/pods", _pod(name))
                self.created.append(name)
        except (RuntimeError, OSError) as error:
            self._failure = str(error)

    def all_done(self) -> list[dict[str, Any]]:
        """Its pods, once all of them have run to their end."""
        assert not self._failure, self._failure
        wanted = set(self.created)

        def look() -> list[dict[str, Any]]:
            found = self._cluster.pods(HOME, LABELS)
            lost = wanted - {pod["metadata"]["name"] for pod in found}
            assert not lost, f"pods that somebody deleted: {sorted(lost)}"
            done = [pod for pod in found if pod["status"].get("phase") == "Succeeded"]
            return done if len(done) == len(wanted) else []

        return self._cluster.until(look, f"{len(wanted)} pods of the load to have run")


def _pod(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "example.test/pause:1",
        "imagePullPolicy": "Never",
        "args": ["1s"],
        # No CPU: kube-scheduler may evict others to free capacity for a pod of Berth, whose priority is higher.
        "resources": {"requests": {"memory": "2Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME, "labels": {"app": "load"}},
        "spec": {"schedulerName": "berth-scheduler", "restartPolicy": "Never", "containers": [container]},
    }


def survive(cluster: Cluster, outside: Outside) -> None:
    """Every pod of Berth, one after the other, then the bus once more, under load."""
    with Load(cluster) as load:
        cluster.until(lambda: len(load.created) >= 3, "the load to begin")
        for space in (SYSTEM, NODES):
            for pod in cluster.pods(space):
                _delete(cluster, space, pod["metadata"]["name"], pod["metadata"]["uid"])
        cluster.report.step(f"every pod of Berth deleted once, meanwhile {len(load.created)} pods created")
        cluster.kubectl("rollout", "restart", "statefulset/nats", "-n", SYSTEM)
        until_ready(cluster)
        cluster.report.step("the bus restarted (kubectl rollout restart statefulset/nats)")
        before = len(load.created)
        cluster.until(lambda: len(load.created) >= before + 3, "the load to go on")
    pods = load.all_done()
    placed_by_berth(pods)
    outside.until_bound(pods)
    slowest = max(_seconds_to_bound(pod) for pod in pods)
    cluster.report.step(
        f"load: {len(pods)} pods created, placed, run to their end; each bound once, as told outside of the cluster; "
        f"the longest wait for a node {slowest:.0f} s"
    )
    path = f"/api/v1/namespaces/{HOME}/pods?labelSelector={LABELS}"
    cluster.call("DELETE", path)


def _delete(cluster: Cluster, space: str, name: str, uid: str) -> None:
    """Delete one, and wait until its successor is ready."""
    cluster.kubectl("delete", "pod", name, "-n", space, "--wait=false")
    cluster.until(lambda: uid not in _uids(cluster, space), f"{name} to be gone")
    for home, workload in workloads(cluster):
        if home == space and name.startswith(workload.partition("/")[2] + "-"):
            cluster.rolled_out(workload, home)
    cluster.report.note(f"{name} deleted, its successor is ready")


def _uids(cluster: Cluster, space: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.pods(space)}


def _seconds_to_bound(pod: dict[str, Any]) -> float:
    bound = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
    return _time(bound[0]["lastTransitionTime"]) - _time(pod["metadata"]["creationTimestamp"])


def _time(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
