"""What nodes lend, at the size of a large cluster: slo-manager's views and its reconciler, without a bus.

The nodes report every minute, each pod with a figure that wanders, and a tenth of them once more in between; pods come
and go; what the service asks for is done at once and shown, and what it writes comes back. Each second of that is
played as fast as it goes. Prints the share of a core (median and 95th percentile of the seconds), its ratio to reading
the same messages and nothing else, memory, requests to the API server a second, and what a restart writes: that is a
process of its own, which begins with what the buckets hold. Asserts nothing.

    python tests/bench/bench_lending.py [--nodes 5000] [--pods 20] [--seconds 180] [--mirrors] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import os
import pstats
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec.structs import replace
from told import tell

from berth.bus.port import Entry, Sink
from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.command import ApplyObject, OfferNode
from berth.contracts.kube import OwnerReference
from berth.contracts.metrics import NodeMetrics, PodUsage, Usage, UsageWindow
from berth.contracts.state import ConfigMap, Node, NodeSLO, Pod, PodTemplate, Synced
from berth.contracts.subjects import named_key, namespaced_key, synced_key
from berth.resources.amounts import parse_amounts
from berth.runtime import Moment, Outcome
from berth.runtime.process import freeze_garbage_collection, tune_garbage_collection
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.reconciler import Reconciler
from berth.slo_manager.views import NODE, PodView, Pressures, Reports, SloView, StateView
from berth.slo_manager.views.state import OBJECT

MAP: Final = ("berth-system", "slo-controller-config")
CONFIG: Final = namespaced_key("configmap", *MAP)
MIB: Final = 1 << 20
CAPACITY: Final = {names.CPU: 64_000, names.MEMORY: 256 * 1024 * MIB}
START_S: Final = 1_000_000.0
INTERVAL_S: Final = 60
LOOKS: Final = 3
"""So many reports of each node before the offers are left to be shown."""
LOW: Final = 6
"""So many of a node's pods live on what is lent."""


def node_of(number: int) -> Node:
    """A node without anything lent."""
    return Node(
        name=f"node-{number:04}.example.net",
        uid=f"11111111-2222-3333-4444-{number:012}",
        version=1,
        labels={"kubernetes.io/hostname": f"node-{number:04}", "topology.kubernetes.io/zone": f"z{number % 3}"},
        allocatable=dict(CAPACITY),
        capacity=dict(CAPACITY),
        ready=True,
    )


def pod_of(node: int, number: int, life: int = 0) -> Pod:
    """A pod of a Deployment, or one that lives on what is lent."""
    workload = f"service-{(node * 31 + number) % 2000}"
    is_low = number < LOW
    qos, lent = ("BE", "koord-batch") if is_low else ("LS", "koord-prod")
    amounts = (
        {names.BATCH_CPU: 2_000, names.BATCH_MEMORY: 2048 * MIB}
        if is_low
        else {names.CPU: 2_000 + 500 * (number % 4), names.MEMORY: 8192 * MIB}
    )
    return Pod(
        namespace=f"team-{number % 40}",
        name=f"{workload}-{node:04}-{number:02}-{life}",
        uid=f"{life:08}-{number:04}-3333-4444-{node:012}",
        version=1,
        node=f"node-{node:04}.example.net",
        phase="Running",
        created="2026-01-01T00:00:00Z",
        template=PodTemplate(
            requests=amounts,
            limits=amounts,
            kube_qos="BestEffort" if is_low else "Guaranteed",
            priority=5500 if is_low else 9500,
            labels={
                "app": workload,
                "pod-template-hash": "5d4f8c7b9",
                names.LABEL_QOS: qos,
                names.LABEL_PRIORITY_CLASS: lent,
            },
        ),
        owners=[OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=workload, uid=workload, controller=True)],
    )


class World:
    """The cluster beside the service: what is reported and shown, made when it is asked for."""

    def __init__(self, nodes: int, pods: int, seed: int = 1) -> None:
        self.nodes, self.pods = nodes, pods
        self.random = random.Random(seed)
        self.lives = [[0] * pods for _ in range(nodes)]
        self.looks = [0] * nodes

    def look(self, number: int) -> tuple[str, bytes]:
        """What the agent of a node says next."""
        self.looks[number] += 1
        return self.report(number)

    def report(self, number: int) -> tuple[str, bytes]:
        """What it has said last: a load that comes and goes within an hour, each pod a little otherwise."""
        drawn = random.Random(number * 1_000_003 + self.looks[number])
        load = 0.4 + 0.2 * math.sin(number + self.looks[number] / 10)
        pods = []
        for at in range(self.pods):
            pod = pod_of(number, at, self.lives[number][at])
            share = load * drawn.uniform(0.9, 1.1)
            usage = Usage(cpu_milli=int(2_000 * share), memory_bytes=int(4096 * MIB * share))
            pods.append(PodUsage(uid=pod.uid, qos="besteffort" if at < LOW else "guaranteed", usage=usage))
        cpu = sum(each.usage.cpu_milli for each in pods)
        memory = sum(each.usage.memory_bytes for each in pods)
        node = Usage(cpu_milli=cpu + 1_500, memory_bytes=memory + 4096 * MIB)
        message = NodeMetrics(
            node=f"node-{number:04}.example.net",
            measured_at=1.0,
            interval_s=10.0,
            cpu_total_milli=64_000,
            memory_total_bytes=CAPACITY[names.MEMORY],
            node_usage=node,
            system_usage=Usage(cpu_milli=1_500, memory_bytes=4096 * MIB),
            pods=pods,
            windows=[
                UsageWindow(duration_s=s, measured_s=s, avg=node, p50=node, p90=node, p95=node, p99=node)
                for s in (300, 600, 1800)
            ],
            prod_reclaimable=Usage(cpu_milli=8_000, memory_bytes=16_384 * MIB),
            strategies={"cpu-suppress": "holds 6 values", "memory-qos": "off"},
        )
        return named_key("node", message.node), encode(message)

    def state(self) -> Iterator[tuple[str, bytes]]:
        """Everything at the start."""
        colocation = {"enable": True, "cpuReclaimThresholdPercent": 65, "midUnallocatedPercent": 10}
        data = {
            "colocation-config": json.dumps(colocation),
            "resource-threshold-config": json.dumps({"clusterStrategy": {"enable": True}}),
        }
        yield CONFIG, encode(ConfigMap(namespace=MAP[0], name=MAP[1], version=1, data=data))
        for number in range(self.nodes):
            node = node_of(number)
            yield named_key(NODE, node.name), encode(node)
            for at in range(self.pods):
                pod = pod_of(number, at)
                yield namespaced_key("pod", pod.namespace, pod.name), encode(pod)
        for kind in ("nodes", "nodeslos", CONFIG, "pods"):
            yield synced_key(kind), encode(Synced(kind=kind, version=1, complete=True))

    def churn(self) -> Iterator[tuple[str, bytes | None]]:
        """A pod goes, and another one comes."""
        number, at = self.random.randrange(self.nodes), self.random.randrange(self.pods)
        before = pod_of(number, at, self.lives[number][at])
        self.lives[number][at] += 1
        pod = pod_of(number, at, self.lives[number][at])
        yield namespaced_key("pod", before.namespace, before.name), None
        yield namespaced_key("pod", pod.namespace, pod.name), encode(pod)


class Service:
    """Views and reconciler as the shell wires them; what they say is encoded, carried out and shown."""

    def __init__(self, *, mirrors: bool) -> None:
        self.now_s = START_S
        self.marked: dict[str, None] = {}
        self.sent: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.view = StateView(MAP, self._mark, self._mark_all)
        self.pods = PodView(self._mark, self._mark_all)
        self.reports = Reports(self._mark, self._mark_all)
        self.published = SloView(self._mark)
        self.reconciler = Reconciler(
            self.view,
            self.pods,
            self.reports,
            Pressures(self._mark),
            self.published,
            config_map=MAP,
            sync_objects=True,
            sync_nodes=True,
            sync_offers=True,
            mirror_metrics=mirrors,
            evictions_per_hour=20,
            rules=Rules(),
        )

    def put(self, sink: Sink, key: str, value: bytes | None) -> None:
        """One message of a bucket; None: it is gone."""
        sink.apply(Entry(key, value or b"", value is None, 1, 0, False, None, self.now_s))

    def see(self, key: str, value: bytes | None) -> None:
        """One message of STATE."""
        is_of_pods = key.startswith("pod.") or key == synced_key("pods")
        self.put(self.pods if is_of_pods else self.view, key, value)

    def measure(self, key: str, value: bytes) -> None:
        """One message of METRICS."""
        self.put(self.reports.agents, key, value)

    def read_to_the_end(self) -> None:
        """Everything that was there is read."""
        for each in (self.view, self.pods, self.reports.agents, self.reports.objects, self.published):
            each.end(1)

    def second(self) -> None:
        """A tick, and the decisions about whatever is marked."""
        self.now_s += 1.0
        at = Moment(self.now_s, self.now_s)
        self.marked.update(dict.fromkeys(self.reconciler.due(at)))
        while self.marked:
            name = next(iter(self.marked))
            del self.marked[name]
            outcome = self.reconciler.reconcile(name, at)
            written = [(each.key, each.message and encode(each.message)) for each in outcome.writes]
            for each in outcome.commands:
                encode(each.message)
            for write in outcome.writes:
                self.published.wrote(write.key, write.message)
            self._happens(outcome, written)

    def _happens(self, outcome: Outcome, written: list[tuple[str, bytes | None]]) -> None:
        for key, value in written:
            self.written[key.partition(".")[0]] += 1
            self.put(self.published, key, value)
        for command in outcome.commands:
            message = command.message
            self.sent[type(message).__name__] += 1
            if isinstance(message, OfferNode):
                node = self.view.nodes[message.name]
                shown = {name: text for name, text in message.resources.items() if text is not None}
                lent = parse_amounts(shown, "resources")[0]
                notes = {name: text or "" for name, text in message.annotations.items()}
                after = replace(
                    node,
                    allocatable={**node.allocatable, **lent},
                    capacity={**node.capacity, **lent},
                    annotations={**node.annotations, **notes},
                )
                self.see(named_key(NODE, node.name), encode(after))
            elif isinstance(message, ApplyObject) and message.owner is not None:
                shown_object = NodeSLO(
                    name=message.name, uid="o", version=1, revision=message.revision, owner_uid=message.owner.uid
                )
                self.see(named_key(OBJECT, message.name), encode(shown_object))

    def _mark(self, name: str) -> None:
        self.marked[name] = None

    def _mark_all(self) -> None:
        self.marked.update(dict.fromkeys(self.reconciler.names()))


class Buckets:
    """What the buckets hold, in a file: kind, key, value."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, service: Service, world: World) -> float:
        """Write everything; the time is that of the newest report."""
        with self.path.open("wb") as file:
            for key, value in world.state():
                if key.startswith(f"{NODE}."):
                    value = encode(service.view.nodes[decode(value, Node).name])
                elif key.startswith("pod."):
                    continue
                self._put(file, "state", key, value)
            for number, lives in enumerate(world.lives):
                for at, life in enumerate(lives):
                    pod = pod_of(number, at, life)
                    self._put(file, "state", namespaced_key("pod", pod.namespace, pod.name), encode(pod))
            for name, each in service.view.objects.items():
                self._put(file, "state", named_key(OBJECT, name), encode(each))
            for key in [*service.published.keys, *service.published.offers.keys, *service.published.pods.keys]:
                self._put(file, "slo", key, encode(service.published.get(key)))
            for number in range(world.nodes):
                self._put(file, "metrics", *world.report(number))
        return service.now_s

    def load(self, service: Service) -> None:
        """Read everything."""
        for kind, key, value in self._entries():
            if kind == "state":
                service.see(key, value)
            elif kind == "slo":
                service.put(service.published, key, value)
            else:
                service.put(service.reports.agents, key, value)
        service.read_to_the_end()

    def _put(self, file: BinaryIO, *texts: str | bytes) -> None:
        for text in texts:
            data = text.encode() if isinstance(text, str) else text
            file.write(struct.pack("<I", len(data)) + data)

    def _entries(self) -> Iterator[tuple[str, str, bytes]]:
        with self.path.open("rb") as file:
            while size := file.read(4):
                kind = file.read(struct.unpack("<I", size)[0]).decode()
                key = file.read(struct.unpack("<I", file.read(4))[0]).decode()
                yield kind, key, file.read(struct.unpack("<I", file.read(4))[0])


def resident_mib() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def start(world: World, *, mirrors: bool) -> Service:
    """A cluster in which the service has never run, until everything is lent and shown."""
    service = Service(mirrors=mirrors)
    for key, value in world.state():
        service.see(key, value)
    service.read_to_the_end()
    busiest = 0
    for second in range(world.nodes // 10 + 60):
        for number in range(world.nodes if second < LOOKS else 0):
            service.measure(*world.look(number))
        sent = service.sent.total()
        service.second()
        busiest = max(busiest, service.sent.total() - sent)
    print(f"start: {dict(service.sent)} asked for, at most {busiest} in a second; {dict(service.written)} written")
    return service


def steady(service: Service, world: World, seconds: int) -> None:
    """The same for a while, measured."""
    service.sent.clear()
    service.written.clear()
    spent: list[float] = []
    asked: list[int] = []
    read_s = 0.0
    for second in range(seconds):
        sent = service.sent.total()
        again = world.random.sample(range(world.nodes), world.nodes // INTERVAL_S // 10)
        reports = [world.look(number) for number in [*range(second % INTERVAL_S, world.nodes, INTERVAL_S), *again]]
        pods = [each for _ in range(world.nodes // 500) for each in world.churn()]
        began = time.process_time()
        for _, value in reports:
            decode(value, NodeMetrics)
        read = time.process_time()
        for key, value in reports:
            service.measure(key, value)
        for key, text in pods:
            service.see(key, text)
        service.second()
        spent.append(time.process_time() - read)
        read_s += read - began
        asked.append(service.sent.total() - sent)
    mean = statistics.fmean(spent)
    print(
        f"share of a core: median {statistics.median(spent):.3f}, mean {mean:.3f},"
        f" 95th percentile {statistics.quantiles(spent, n=20)[-1]:.3f}"
    )
    print(f"ratio to reading the reports alone: {mean * seconds / read_s:.1f}")
    print(
        f"requests to the API server: {sum(asked) / seconds:.1f} a second, at most {max(asked)}; {dict(service.sent)}"
    )
    print(f"written to SLO: {service.written.total() / seconds:.0f} a second; {dict(service.written)}")
    print(f"memory: {resident_mib():.0f} MiB")
    tell("steady", core=mean, ratio=mean * seconds / read_s, requests=sum(asked) / seconds, memory_mib=resident_mib())


def restart(buckets: Buckets, now_s: float) -> None:
    """Another process begins with what there is."""
    before = resident_mib()
    service = Service(mirrors=False)
    service.now_s = now_s
    began = time.process_time()
    buckets.load(service)
    read = time.process_time()
    service.reconciler.begin()
    service.second()
    first, decided = dict(service.written), time.process_time()
    for _ in range(2 * INTERVAL_S):
        service.second()
    print(
        f"restart: {first} written at first, {dict(service.written)} in two minutes, {dict(service.sent)} asked for;"
        f" {read - began:.1f} s to read, {decided - read:.1f} s to decide"
    )
    print(f"memory: {resident_mib():.0f} MiB, of which {before:.0f} before anything was read")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--mirrors", action="store_true", help="NodeMetric objects are kept as well")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--restart", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--now", type=float, default=START_S, help=argparse.SUPPRESS)
    options = parser.parse_args()
    tune_garbage_collection()
    if options.restart is not None:
        restart(Buckets(options.restart), options.now)
        return
    print(f"{options.nodes} nodes, {options.nodes * options.pods} pods")
    world = World(options.nodes, options.pods)
    service = start(world, mirrors=options.mirrors)
    freeze_garbage_collection()
    profile: Any = cProfile.Profile() if options.profile else None
    if profile is not None:
        profile.enable()
    steady(service, world, options.seconds)
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    with tempfile.TemporaryDirectory() as folder:
        buckets = Buckets(Path(folder, "buckets"))
        now = buckets.save(service, world)
        del service
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--restart", str(buckets.path), "--now", str(now)], check=True)


if __name__ == "__main__":
    main()
