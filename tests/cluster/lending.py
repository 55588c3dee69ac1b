"""Batch pods run where native requests leave nothing: the node lends what is asked for and not used."""

from __future__ import annotations

import json
import os
import time

from tests.cluster import groups
from tests.cluster.cluster import Cluster
from tests.cluster.displacing import free
from tests.cluster.listening import Outside
from tests.cluster.node import NAME
from tests.cluster.placing import done, note, placed_by_berth, refusal
from tests.cluster.pods import BATCH, configure, create, run

from berth.contracts import names
from berth.resources.quantity import parse_milli

ASKED_MILLI, ASKED_MIB = 100, 64
COLOCATION = {"enable": True, "cpuReclaimThresholdPercent": 100, "memoryReclaimThresholdPercent": 90}
OFFER_S = 30.0
"""An offer rises after two reports."""
BATCH_AMOUNTS = {names.BATCH_CPU: str(ASKED_MILLI), names.BATCH_MEMORY: f"{ASKED_MIB}Mi"}


def lend(cluster: Cluster, outside: Outside) -> None:
    """A native pod finds no room, a batch pod does."""
    offered = lendable(cluster)
    if offered is None:
        return
    cluster.report.step(f"the node shows what it lends: {offered[0] / 1000:.2f} cores, {offered[1] >> 20} MiB")
    cpu, memory = free(cluster, "cpu"), free(cluster, "memory") // 1000
    full = run(cluster, "full", requests={"cpu": f"{cpu}m", "memory": str(memory)})
    placed_by_berth([full])
    create(cluster, "native", requests={"cpu": f"{ASKED_MILLI}m", "memory": f"{ASKED_MIB}Mi"})
    told = cluster.until(lambda: refusal(cluster, "app=native"), "the native pod to be refused")
    assert "Insufficient cpu" in told, told
    amounts = amounts_of(offered)
    batch = run(cluster, "lent", "burn", "1", labels=BATCH, requests=amounts, limits=amounts)
    placed_by_berth([batch])
    outside.until_bound([batch])
    assert batch["status"]["qosClass"] == "BestEffort"
    (asked,) = json.loads(note(batch, names.ANNOTATION_EXTENDED_RESOURCE_SPEC))["containers"].values()
    assert set(asked["requests"]) == set(amounts)
    assert refusal(cluster, "app=native"), "the native pod was placed"
    used = groups.watched(groups.pod_group(batch["metadata"]["uid"], "besteffort"), 3.0)
    cluster.report.step(
        f"requests take all {cpu}m CPU and {memory >> 20} MiB that were left: a native pod waits, "
        f"`{told.split(' preemption')[0]}`; a batch pod that asks for {', '.join(amounts)} is placed, and "
        f"uses {used.cores:.2f} cores"
    )
    done(cluster, "full", "native", "lent")
    configure(cluster, colocation=None)
    cluster.until(lambda: _offered(cluster) is None, "the node to lend nothing")


def lendable(cluster: Cluster) -> tuple[int, int] | None:
    """Have the node lend: milli-cores and bytes of batch resources; None, and it is said, where nothing is left."""
    configure(cluster, colocation=COLOCATION)
    deadline_s = time.monotonic() + OFFER_S
    while (found := _offered(cluster)) is None and time.monotonic() < deadline_s:
        time.sleep(1)
    if found is None:
        cluster.report.step(
            f"skipped, what takes batch resources: nothing is left to lend; {groups.busy_cores(3.0):.1f} of the "
            f"{os.cpu_count()} cores of this machine are used, others than those of pods among them"
        )
        configure(cluster, colocation=None)
    return found


def amounts_of(offered: tuple[int, int] | None) -> dict[str, str]:
    """What a batch pod asks for: of both where there is both, of memory where other work has all CPUs."""
    found = dict(BATCH_AMOUNTS) if offered else {}
    if offered and offered[0] < ASKED_MILLI:
        del found[names.BATCH_CPU]
    return found


def _offered(cluster: Cluster) -> tuple[int, int] | None:
    """Milli-cores and bytes of batch resources, once there is memory enough."""
    there = cluster.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
    cpu = parse_milli(there.get(names.BATCH_CPU, "0")) // 1000
    memory = parse_milli(there.get(names.BATCH_MEMORY, "0")) // 1000
    return (cpu, memory) if memory >= ASKED_MIB << 20 else None
