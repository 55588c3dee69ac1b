"""Nodes under pressure, in one run: agents that ask for more pods than it takes, and batch pods, some with a budget.

The agents are played: each says every second what its node uses by the pods that are there, and names the next two pods
whatever it has asked for before. So it is slo-manager alone that lets one need evict once.
"""

from __future__ import annotations

import json
import random
from typing import Final

from tests.simulation.faults import Fault
from tests.simulation.harness import Harness
from tests.simulation.owned import SET_LABEL, budget
from tests.simulation.planted.injectors import Saboteur
from tests.simulation.workload import (
    CPU_MILLI,
    MEMORY_MIB,
    NAMESPACE,
    STRATEGY,
    Create,
    Delete,
    Json,
    Size,
    Timed,
    node,
    strategy_manifest,
)

from berth.contracts import buckets, names
from berth.contracts.codec import encode
from berth.contracts.metrics import NodeMetrics, Usage
from berth.contracts.node_pressure import EvictionAsk, NodePressure
from berth.contracts.subjects import named_key
from berth.rules.node_evictions.features import BE_MEMORY
from berth.rules.node_evictions.notes import noted_eviction
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.store.resource import NODES, PODS
from berth.testing.simulation.nats.message import Publish

TICK_S: Final = 1.0
MIB: Final = 1 << 20
EACH: Final = MEMORY_MIB * MIB // 8
"""What each best-effort pod uses: six of them are too many, and one that leaves is enough."""
THRESHOLD: Final = 70
TWO: Final = 2
PROTECTED: Final = "scheduling.koordinator.sh/disable-preemptible"
SMALL: Final = PodRequest(100, 64)


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """A few nodes, and a strategy by which pods leave from `THRESHOLD` percent of memory on."""
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    for number in range(size.nodes):
        made += node(f"node-{number}", 2, number)
    config = strategy_manifest(enable=True, percent=65)
    config["data"][STRATEGY] = json.dumps(
        {"clusterStrategy": {"enable": True, "memoryEvictThresholdPercent": THRESHOLD}}
    )
    return [*made, config]


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Batch pods that come one after the other; of some sets a budget lets few go, some are protected."""
    done = [Timed(1.0, Create(budget(f"set-{number}", 2))) for number in range(3)]
    for number in range(size.singles):
        at_s = rng.uniform(2.0, size.end_s)
        labels = {SET_LABEL: f"set-{rng.randrange(6)}"}
        if rng.random() < 0.1:
            labels[PROTECTED] = "true"
        qos = rng.choice(("BE", "BE", "BE", "LS"))
        done.append(
            Timed(at_s, Create(pod_manifest(f"p-{number}", SMALL, namespace=NAMESPACE, labels=labels, qos=qos)))
        )
        if rng.random() < 0.3:
            done.append(Timed(at_s + rng.uniform(5.0, 40.0), Delete("Pod", f"p-{number}", rng.choice((0, 30)))))
    return sorted(done, key=lambda timed: timed.at_s)


class Pressing(Saboteur):
    """An injector that plays the agents of all nodes beside."""

    def plan(self, faults: list[Fault]) -> None:
        """See `FaultInjector`."""
        super().plan(faults)
        self._numbers: dict[str, tuple[int, int]] = {}
        self._harness.world.later(TICK_S, None, self._tell)

    def _tell(self) -> None:
        harness = self._harness
        there: dict[str, list[Json]] = {}
        for pod in harness.kube.store.state.of(PODS).items.values():
            if pod.data["spec"].get("nodeName"):
                there.setdefault(pod.data["spec"]["nodeName"], []).append(pod.data)
        for key in harness.kube.store.state.of(NODES).items:
            self._tell_of(harness, key.rpartition("/")[2], there.get(key.rpartition("/")[2], []))
        harness.world.later(TICK_S, None, self._tell)

    def _tell_of(self, harness: Harness, name: str, pods: list[Json]) -> None:
        used, total = sum(_is_best_effort(pod) for pod in pods) * EACH, MEMORY_MIB * MIB
        at = round(harness.world.wall(), 3)
        usage = Usage(cpu_milli=1_000, memory_bytes=used)
        metrics = NodeMetrics(
            node=name,
            measured_at=at,
            interval_s=TICK_S,
            cpu_total_milli=CPU_MILLI,
            memory_total_bytes=total,
            node_usage=usage,
        )
        asks = (
            []
            if used * 100 < THRESHOLD * total
            else self._asks(pods, used - (THRESHOLD - 2) * total // 100, int(at * 1000))
        )
        _put(harness, named_key("node", name), encode(metrics))
        _put(harness, named_key("pressure", name), encode(NodePressure(node=name, at=at, asks=asks)))

    def _asks(self, pods: list[Json], release: int, now_ms: int) -> list[EvictionAsk]:
        found = []
        for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
            meta = pod["metadata"]
            note = noted_eviction(meta.get("annotations") or {})
            refused = note.revision if note is not None and note.refused else 0
            if refused and now_ms - refused < 10_000:
                continue
            before, number = self._numbers.get(meta["uid"], (-1, 0))
            if before != refused:
                number = now_ms
            self._numbers[meta["uid"]] = refused, number
            found.append(
                EvictionAsk(
                    uid=meta["uid"],
                    number=number,
                    need=f"{BE_MEMORY.name}-{now_ms}",
                    feature=BE_MEMORY.name,
                    accumulator=BE_MEMORY.accumulator,
                    release={names.MEMORY: release},
                    counts={names.MEMORY: EACH},
                )
            )
        return [each for each in found if not _is_other(pods, each.uid)][:TWO]


def _is_other(pods: list[Json], uid: str) -> bool:
    """Whether the pod is none that the feature may name; now and then one is named all the same."""
    pod = next(pod for pod in pods if pod["metadata"]["uid"] == uid)
    is_protected = PROTECTED in (pod["metadata"].get("labels") or {})
    return (is_protected or not _is_best_effort(pod)) and len(pods) % 3 > 0


def _is_best_effort(pod: Json) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(names.LABEL_QOS) == "BE")


def _put(harness: Harness, key: str, data: bytes) -> None:
    """A message of an agent, as the bus stores it."""
    stream = harness.nats.streams.get(f"KV_{buckets.METRICS}")
    if stream is None or not harness.nats.running:
        return
    stream.tell((stream.store(Publish(f"$KV.{buckets.METRICS}.{key}", data), 0, ""),))
