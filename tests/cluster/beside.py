"""A service of fixed work and rate alone, beside batch pods with the agent, and beside them without it: five times in
turn. What is said are medians, and what each run had.

Without the agent nothing is changed but that: the batch pods are best-effort ones of kubelet all the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cluster import groups
from tests.cluster.cluster import Cluster
from tests.cluster.installing import NODES
from tests.cluster.latencies import counted, median, percentile_us
from tests.cluster.lending import amounts_of, lendable
from tests.cluster.listening import Outside
from tests.cluster.node import NAME
from tests.cluster.placing import HOME, placed_by_berth
from tests.cluster.pods import BATCH, configure, run

RUNS = 5
WATCH_S = 8.0
SETTLE_S = 6.0
"""The quota grows by a tenth of the node in a second."""
CALM_CORES, CALM_S = 0.9, 15.0
"""The node's own services use less; until a machine does that, or so long, it is waited."""
RATE, ROUNDS = 200, 20
THRESHOLD_PERCENT, LEAST_PERCENT = 65, 20
BATCH_PODS = 2
AGENT = "daemonset/node-qos-enforcer"
SHARED = {
    "policies": {"cpuPolicy": "groupIdentity"},
    "lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}},
    "beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1}},
}
NOWHERE = {"spec": {"template": {"spec": {"nodeSelector": {"berth.sh/nowhere": "true"}}}}}
SOMEWHERE = {"spec": {"template": {"spec": {"nodeSelector": {"berth.sh/nowhere": None}}}}}
DAEMON_SET = f"/apis/apps/v1/namespaces/{NODES}/daemonsets/node-qos-enforcer"


class Seen(NamedTuple):
    """One watch: percentiles in ms, cores of batch pods, cores that the law leaves them, cores of the whole node."""

    p50_ms: float
    p99_ms: float
    batch: float
    left: float
    node: float


def beside(cluster: Cluster, outside: Outside) -> None:
    """Measure, and say it."""
    calm = _calm()
    amounts = amounts_of(lendable(cluster))
    configure(
        cluster,
        resource_threshold={
            "clusterStrategy": {
                "enable": True,
                "cpuSuppressThresholdPercent": THRESHOLD_PERCENT,
                "cpuSuppressMinPercent": LEAST_PERCENT,
                "cpuSuppressPolicy": "cfsQuota",
                "memoryEvictThresholdPercent": 95,
            }
        },
        resource_qos={"clusterStrategy": SHARED},
    )
    folder = cluster.space.home / "served"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "seconds"
    requests = {"cpu": "200m", "memory": "16Mi"}
    pod = run(
        cluster, "measured", "serve", str(RATE), str(ROUNDS), "/data/seconds", requests=requests, folder=str(folder)
    )
    placed_by_berth([pod])
    cluster.until(lambda: path.exists() and path.stat().st_size, "the service to serve")
    group = groups.pod_group(pod["metadata"]["uid"], "burstable")
    found: dict[str, list[Seen]] = {"alone": [], "with the agent": [], "without the agent": []}
    for number in range(RUNS):
        time.sleep(3)
        found["alone"].append(_watch(path))
        _batch(cluster, amounts)
        time.sleep(SETTLE_S)
        found["with the agent"].append(_watch(path))
        _agent(cluster, there=False)
        time.sleep(3)
        found["without the agent"].append(_watch(path))
        cluster.kubectl("delete", "pod", "-n", HOME, "-l", "load=batch", "--wait=true")
        _agent(cluster, there=True)
        said = "; ".join(
            f"{name} p99 {seen[-1].p99_ms:.2f} ms, batch {seen[-1].batch:.2f} of {seen[-1].left:.2f} cores"
            for name, seen in found.items()
        )
        cluster.report.note(f"run {number + 1}: {said}")
    cluster.report.step(
        f"{RATE} requests a second, each hashes {ROUNDS} x 64 KiB; {BATCH_PODS} batch pods that never rest; "
        f"{RUNS} runs of {WATCH_S:g} s each; the service uses {groups.watched(group, 3).cores:.2f} cores, all the rest "
        f"{calm:.2f}"
    )
    cluster.report.table(
        [
            "",
            "p50 ms",
            "p99 ms",
            "p99 to that alone",
            "batch pods' cores",
            "of what the law leaves",
            "cores of the node",
            "p99 of each run",
        ],
        [_row(name, seen, found["alone"]) for name, seen in found.items()],
    )
    cluster.kubectl("delete", "pod", "measured", "-n", HOME, "--wait=true")
    configure(cluster, resource_threshold={"clusterStrategy": {"enable": False}}, resource_qos=None, colocation=None)


def _row(name: str, seen: list[Seen], alone: list[Seen]) -> list[str]:
    p99, base = median(each.p99_ms for each in seen), median(each.p99_ms for each in alone)
    with_batch = name != "alone"
    shares = [each.batch / each.left for each in seen if each.left > 0]
    return [
        name,
        f"{median(each.p50_ms for each in seen):.2f}",
        f"{p99:.2f}",
        f"{p99 / base:.2f}",
        f"{median(each.batch for each in seen):.2f}" if with_batch else "",
        f"{100 * median(shares):.0f} %" if with_batch and shares else "",
        f"{median(each.node for each in seen):.2f}",
        ", ".join(f"{each.p99_ms:.2f}" for each in seen),
    ]


def _calm() -> float:
    """Cores in use, once the machine has nothing else to do, or never has."""
    deadline_s = time.monotonic() + CALM_S
    while (busy := groups.busy_cores(3.0)) > CALM_CORES and time.monotonic() < deadline_s:
        pass
    return busy


def _watch(path: Path) -> Seen:
    """Look for a while. What the law leaves: the threshold less what others use, or the least."""
    begin = time.time()
    busy_s, batch_s = groups.busy_s(), groups.used_s(groups.BEST_EFFORT)
    time.sleep(WATCH_S)
    end = time.time()
    node = (groups.busy_s() - busy_s) / (end - begin)
    batch = (groups.used_s(groups.BEST_EFFORT) - batch_s) / (end - begin)
    time.sleep(1.2)
    counts = counted(path, begin, end)
    cpus = os.cpu_count() or 1
    left = cpus * max(THRESHOLD_PERCENT / 100 - (node - batch) / cpus, LEAST_PERCENT / 100)
    return Seen(percentile_us(counts, 50) / 1000, percentile_us(counts, 99) / 1000, batch, left, node)


def _batch(cluster: Cluster, amounts: Mapping[str, str]) -> None:
    """Batch pods that use whatever they are let."""
    for number in range(BATCH_PODS):
        labels = {**BATCH, "load": "batch"}
        placed_by_berth([run(cluster, f"batch-{number}", "burn", "2", labels=labels, requests=amounts)])


def _agent(cluster: Cluster, *, there: bool) -> None:
    """Take the node's agent away, which undoes what it did; or let it come back."""
    cluster.call("PATCH", DAEMON_SET, SOMEWHERE if there else NOWHERE)
    if there:
        cluster.until(lambda: len(cluster.pods(NODES)) == 1, "the agent to come back")
        cluster.rolled_out(AGENT, NODES)
    else:
        cluster.until(lambda: not cluster.pods(NODES), "the agent to be gone")
        assert groups.quota_us() == groups.UNLIMITED, f"the quota of {NAME} stays"
