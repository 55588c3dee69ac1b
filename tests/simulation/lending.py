"""Nodes that lend what others leave, in one run: reports of their use, and batch pods for more than that.

The clocks of some nodes are wrong, and kubelets register anew, which shows nothing that is lent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

from tests.simulation.workload import NAMESPACE, Change, Create, Delete, Json, Size, Timed, node, strategy_manifest

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.rules.times import text_of
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION
from berth.testing.simulation.world import EPOCH_S

KIND: Final = "NodeMetric"
REPORT_S: Final = 5.0
ANEW_S: Final = 20.0
WRONG_S: Final = 7_200.0
NATIVE: Final = PodRequest(10, 16)
COLOCATION: Final = {
    "enable": True,
    "cpuReclaimThresholdPercent": 100,
    # The status of a node follows late, so that who counts by it alone is seen to.
    "resourceDiffThreshold": 1,
    "updateTimeThresholdSeconds": 60,
}


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """A few nodes that report, and a strategy by which they lend."""
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    for number in range(size.nodes):
        name = f"node-{number}"
        made += node(name, 2, number)
        made.append({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": {}})
    return [*made, _config()]


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Use that goes up and down; batch pods that end, or are deleted, and others that take what they leave."""
    done = reports(rng, size, WRONG_S)
    for number in range(size.singles):
        at_s = rng.uniform(8.0, size.end_s)
        notes = {DURATION: f"{rng.uniform(3, 12):.1f}s"} if rng.random() < 0.7 else {}
        pod = pod_manifest(f"batch-{number}", NATIVE, namespace=NAMESPACE, qos="BE", annotations=notes)
        resources = pod["spec"]["containers"][0]["resources"]
        lent = {BATCH_CPU: str(rng.choice((1_000, 2_000, 4_000))), BATCH_MEMORY: "64Mi"}
        for amounts in resources.values():
            amounts.update(lent)
        done.append(Timed(at_s, Create(pod)))
        if not notes:
            done.append(Timed(at_s + rng.uniform(2.0, 20.0), Delete("Pod", f"batch-{number}", rng.choice((0, 30)))))
    for number in range(size.nodes):
        done += [Timed(at_s, _anew(f"node-{number}")) for at_s in _times(rng, ANEW_S, size.end_s)]
    return sorted(done, key=lambda timed: timed.at_s)


def reports(rng: random.Random, size: Size, wrong_s: float = 0.0) -> list[Timed]:
    """Use of each node that goes up and down. Of three clocks one is so much behind, and one before its time."""
    done: list[Timed] = []
    for number in range(size.nodes):
        at_s, cpu = rng.uniform(0.0, 1.0), 2_000
        while at_s < size.end_s:
            if rng.random() < 0.3:
                cpu = rng.randrange(1_000, 15_000)
            done.append(Timed(at_s, _report(f"node-{number}", at_s + (number % 3 - 1) * wrong_s, cpu)))
            at_s += REPORT_S
    return done


def _times(rng: random.Random, pause_s: float, end_s: float) -> Iterator[float]:
    at_s = rng.uniform(pause_s / 2, 3 * pause_s / 2)
    while at_s < end_s:
        yield at_s
        at_s += rng.uniform(pause_s / 2, 3 * pause_s / 2)


def _anew(name: str) -> Change:
    """What a kubelet makes of the node that it finds."""
    nothing = {BATCH_CPU: "0", BATCH_MEMORY: "0"}
    return Change("Node", name, {"status": {"capacity": nothing, "allocatable": nothing}}, "status")


def _report(name: str, at_s: float, cpu_milli: int) -> Change:
    usage = {"resources": {"cpu": f"{cpu_milli}m", "memory": "1Gi"}}
    status = {"updateTime": text_of(EPOCH_S + at_s), "nodeMetric": {"nodeUsage": usage, "systemUsage": usage}}
    return Change(KIND, name, {"status": status}, "status")


def _config() -> Json:
    made = strategy_manifest(enable=False, percent=65)
    made["data"]["colocation-config"] = json.dumps(COLOCATION)
    return made
