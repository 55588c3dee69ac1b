"""The node runs short of memory: a best-effort pod leaves, and one that a disruption budget keeps stays.

The threshold is set a little above what the node uses, as its owner would set it, and a pod takes the memory between.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from tests.cluster import groups
from tests.cluster.cluster import Cluster
from tests.cluster.listening import Outside
from tests.cluster.node import NAME
from tests.cluster.placing import HOME, done, placed_by_berth
from tests.cluster.pods import BATCH, configure, create, run

from berth.rules.node_evictions.notes import noted_eviction

HELD_MIB = {"kept": 400, "loose": 300}
ABOVE_PERCENT = 3
"""How far above its present use the node's threshold is set: more than other work on a machine moves in a while."""
BEYOND_PERCENT = 1
POLL_S = 0.05
SETTLE_S = 3.0
"""Until a strategy that the API server shows has reached the agent."""
STRATEGIES = f"/apis/slo.koordinator.sh/v1alpha1/nodeslos/{NAME}"
PODS = f"/api/v1/namespaces/{HOME}/pods"


class Crossing:
    """When the node's use of memory first came to a percentage, by the kernel's figures."""

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.at_s: float | None = None

    def __enter__(self) -> Crossing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        while self.at_s is None and not self._enough.wait(0.01):
            used, total = memory()
            if used * 100 // total >= self._percent:
                self.at_s = time.monotonic()


def memory() -> tuple[int, int]:
    """Bytes of memory in use, and all."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    found = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
    return found["MemTotal"] - found["MemAvailable"], found["MemTotal"]


def relieve(cluster: Cluster, outside: Outside) -> None:
    """One leaves, one stays, and nobody else is touched."""
    for name, mib in HELD_MIB.items():
        placed_by_berth([run(cluster, name, "hold", str(mib), labels=BATCH)])
    pods = {name: cluster.get(f"{PODS}/{name}") for name in HELD_MIB}
    for name, pod in pods.items():
        group = groups.pod_group(pod["metadata"]["uid"], "besteffort")
        cluster.until(lambda at=group, mib=HELD_MIB[name]: groups.memory_mib(at) >= mib, f"{name} to hold its memory")
    cluster.apply("budget.yaml")
    budget = f"/apis/policy/v1/namespaces/{HOME}/poddisruptionbudgets/kept"
    cluster.until(lambda: cluster.get(budget).get("status", {}).get("currentHealthy") == 1, "the budget to be counted")
    others = _uids(cluster) - {pods["loose"]["metadata"]["uid"]}

    used, total = memory()
    threshold = used * 100 // total + ABOVE_PERCENT
    configure(cluster, resource_threshold=_strategy(threshold))
    cluster.until(lambda: _threshold(cluster) == threshold, "the node's strategy")
    time.sleep(SETTLE_S)
    cluster.report.step(
        f"two best-effort pods hold {HELD_MIB['loose']} and {HELD_MIB['kept']} MiB, a budget keeps the larger one; the "
        f"node uses {used * 100 // total} % of its memory, memoryEvictThresholdPercent is {threshold}"
    )

    used, total = memory()
    more_mib = (total * (threshold + BEYOND_PERCENT) // 100 - used) >> 20
    with Crossing(threshold) as crossing:
        create(cluster, "grows", "hold", str(more_mib), requests={"memory": "8Mi"})
        asked_s, gone_s, last = _watch(cluster, "loose")
    assert crossing.at_s is not None, "somebody left before the threshold was reached"
    note = noted_eviction(last["metadata"].get("annotations", {}))
    assert note is not None, "it left for another reason"
    assert (note.feature, note.refused) == ("BEMemoryEvict", "")
    cluster.report.step(
        f"another pod takes {more_mib} MiB: {asked_s - crossing.at_s:.1f} s after the threshold was reached the "
        f"smaller one is evicted, {gone_s - crossing.at_s:.1f} s after it is gone; its note: `{note.message}`"
    )
    cluster.until(lambda: not groups.has_pod(last["metadata"]["uid"], "besteffort"), "its control group to be gone")
    kept = cluster.get(f"{PODS}/kept")
    assert kept["metadata"]["uid"] == pods["kept"]["metadata"]["uid"]
    assert "deletionTimestamp" not in kept["metadata"], "the budget was not asked"
    refused = noted_eviction(kept["metadata"].get("annotations", {}))
    assert refused is not None, "the one that uses most was not asked for first"
    assert refused.refused, "nobody says why it stays"
    assert others <= _uids(cluster), "another pod had to leave"
    cluster.report.step(f"the larger one, asked for first, stays: `{refused.refused}`; every other pod runs on")
    configure(cluster, resource_threshold={"clusterStrategy": {"enable": False}})
    done(cluster, "grows", "kept")
    cluster.kubectl("delete", "poddisruptionbudget", "kept", "-n", HOME)


def _strategy(threshold: int) -> dict[str, Any]:
    """What the owner of this node says of it; the others' strategy stays off."""
    of_node = {
        "name": "short-of-memory",
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": NAME}},
        "enable": True,
        "cpuSuppressPolicy": "cfsQuota",
        "memoryEvictThresholdPercent": threshold,
        "memoryEvictLowerPercent": threshold - 2,
    }
    return {"clusterStrategy": {"enable": False}, "nodeStrategies": [of_node]}


def _threshold(cluster: Cluster) -> int:
    section = cluster.get(STRATEGIES).get("spec", {}).get("resourceUsedThresholdWithBE", {})
    return int(section.get("memoryEvictThresholdPercent", 0)) if section.get("enable") else 0


def _watch(cluster: Cluster, name: str) -> tuple[float, float, dict[str, Any]]:
    """When a pod was told to end, when it was gone, and how it looked last."""
    asked_s, last = 0.0, {}
    deadline_s = time.monotonic() + 60
    while found := cluster.get(f"{PODS}/{name}"):
        assert time.monotonic() < deadline_s, f"{name} is not evicted"
        if not asked_s and "deletionTimestamp" in found["metadata"]:
            asked_s = time.monotonic()
        last = found
        time.sleep(POLL_S)
    gone_s = time.monotonic()
    return asked_s or gone_s, gone_s, last


def _uids(cluster: Cluster) -> set[str]:
    pods = cluster.items("/api/v1/pods")
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
