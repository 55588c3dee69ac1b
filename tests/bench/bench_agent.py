"""What a node agent costs: CPU of a round, memory, and how long a container waits for it.

The node is made of files (in memory where that is a folder): control groups of version 2, pods of three classes, every
strategy switched on. Compared within one run, taken in turns, are whole rounds, rounds that keep no file open, and
rounds of a node whose strategies are off. Counters of every group move between rounds, which is not counted.

With `--seconds` the agent also runs as a process of its own, as it does on a node (bus, container runtime, all
reports), and the CPU that it takes and its memory are read from /proc; then containers are created.

Prints medians and ratios; asserts nothing.

    python tests/bench/bench_agent.py [--pods 100] [--containers 3] [--rounds 60] [--seconds 30] [--enforce-alone]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from node_of_files import NODE, SPEC, NodeOfFiles
from told import tell

from berth.bus import Bus, BusSettings
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.slo import CpuSuppress, NodeSLO
from berth.contracts.subjects import named_key, node_pod_key
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.peaks.reclaimable import Rule
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.round import Round
from berth.node_qos_enforcer.disk_reading import DiskReader
from berth.node_qos_enforcer.doers.machine import doers_of
from berth.node_qos_enforcer.enforcing import Enforcer
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.interference_figures import InterferenceFigures
from berth.node_qos_enforcer.kept_files import KeptFiles, most_files
from berth.node_qos_enforcer.machine import read_cpu, read_topology
from berth.node_qos_enforcer.predicting import Predicting
from berth.node_qos_enforcer.sampler import Trees, take_sample
from berth.node_qos_enforcer.store import JournalFile
from berth.node_qos_enforcer.views import KnownNode
from berth.nri import api_pb2 as api
from berth.runtime.process import freeze_garbage_collection, tune_garbage_collection
from berth.testing.nats_server import NatsServer
from berth.testing.nri_runtime import FakeRuntime, PluginPeer

WARM = 15
ALL, NONE = "all strategies", "no strategy"
COMPONENTS = frozenset({"enforce", "enforce-network", "enforce-cores", "enforce-kernel", "enforce-perf"})
CREATED_S = 0.1


def slo_of(spec: dict[str, object]) -> NodeSLO:
    """The message that tells the node its strategies."""
    suppress = CpuSuppress(enabled=bool(spec), policy="cfsQuota", threshold_percent=65)
    return NodeSLO(node=NODE, cpu_suppress=suppress, spec=spec)


class Agent:
    """The half of an agent that holds pods, in this process."""

    def __init__(self, node: NodeOfFiles, folder: Path, spec: dict[str, object], *, keeps: bool = True) -> None:
        """Take the node, where it may write, the specification, and whether descriptors stay open."""
        folder.mkdir()
        self._node = node
        trees = {name: DiskTree(node.root / name) for name in ("proc", "sys", "host")}
        self._trees = Trees(trees["proc"], trees["sys"], DiskTree(node.cgroup))
        executor = Executor(DiskTree(node.cgroup), JournalFile(str(folder / "journal")), boot="b", elsewhere=trees)
        known = KnownNode(NODE)
        known.processors, known.cpu = read_topology(self._trees.sys), read_cpu(self._trees.proc)
        state = node.state()
        known.view.capacity = known.view.allocatable = state.allocatable
        known.strategies.restore(slo_of(spec))
        self._told, self._running = node.told(), node.running()
        self._now_s = 1_000.0
        self.known = known
        self._kept = KeptFiles(DiskTree(node.cgroup), most_files()) if keeps else None
        self._enforcer = Enforcer(
            Applier(executor, kept=self._kept),
            Meter(NODE, max_gap_s=5.0),
            known,
            strategies=Round(STRATEGIES, COMPONENTS),
            doers=doers_of(DiskTree(node.cgroup), trees["sys"], str(folder / "journal"), "b", InterferenceFigures()),
            disks=DiskReader(node.root / "sys", node.tools),
            predicting=Predicting(NODE, str(folder / "peaks"), Rule(86_400.0)),
        )

    def round(self) -> float:
        """One round, a second after the one before. Returns milliseconds of CPU."""
        self._now_s += 1.0
        before = time.process_time_ns()
        sample = take_sample(
            self._trees,
            monotonic=lambda: self._now_s,
            applications=self._enforcer.applications,
            kept=self._kept,
            with_pressure=False,
        )
        self._enforcer.step(
            sample, now=self._now_s, now_s=self._now_s, runtime=dict(self._running), told=dict(self._told)
        )
        if self._kept is not None:
            self._kept.end_round()
        return (time.process_time_ns() - before) / 1e6


def rounds(folder: Path, pods: int, containers: int, count: int) -> None:
    """Rounds of all kinds, in turns."""
    kinds = {ALL: (SPEC, True), "all, nothing kept open": (SPEC, False), NONE: ({}, True)}
    agents, nodes = {}, {}
    for number, (name, (spec, keeps)) in enumerate(kinds.items()):
        nodes[name] = NodeOfFiles(folder / f"node{number}", pods, containers)
        agents[name] = Agent(nodes[name], folder / f"kept{number}", spec, keeps=keeps)
    spent: dict[str, list[float]] = {name: [] for name in agents}
    for turn in range(WARM + count):
        for name, agent in agents.items():
            nodes[name].advance()
            took = agent.round()
            if turn >= WARM:
                spent[name].append(took)
        if turn == WARM:
            tune_garbage_collection()
            freeze_garbage_collection()
    least = statistics.median(spent[NONE])
    print(f"{pods} pods of {containers} containers, {count} rounds, CPU of one round")
    for name, times in spent.items():
        mean, median, p90 = statistics.fmean(times), statistics.median(times), sorted(times)[int(len(times) * 0.9)]
        print(f"  {name:22} mean {mean:6.2f} ms, median {median:6.2f}, p90 {p90:6.2f}, {median / least:5.2f} x {NONE}")
        tell("rounds", strategies=name, mean_ms=mean, median_ms=median, p90_ms=p90, ratio=median / least)
    for name, agent in agents.items():
        for each in agent.known.refused[:5]:
            print(f"  {name}: {each}")


async def whole(folder: Path, pods: int, containers: int, seconds: int, *, is_alone: bool) -> None:
    """The agent as a process, with a bus and a container runtime. `is_alone`: the component `enforce` alone."""
    node = NodeOfFiles(folder / "node", pods, containers)
    runtime = FakeRuntime(folder / "nri.sock")
    with NatsServer() as server:
        bus = await Bus.connect(BusSettings(url=server.url), service="bench")
        await bus.ensure()
        slo, state = bus.owned(buckets.SLO), bus.owned(buckets.STATE)
        await slo.ready()
        await state.ready()
        state.put(named_key("node", NODE), encode(node.state()))
        slo.put(named_key("node", NODE), encode(slo_of(SPEC)))
        for uid, told in node.told().items():
            slo.put(node_pod_key(NODE, uid), encode(told))
        await runtime.start()
        agent = subprocess.Popen(
            [sys.executable, "-m", "berth.node_qos_enforcer"], env=_environ(node, folder, server, is_alone=is_alone)
        )
        try:
            peer = await runtime.plugin()
            await peer.ready([node.listed()])
            await _wait(node, seconds=10 + pods / 20)
            before, at = _cpu_s(agent.pid), time.monotonic()
            await _wait(node, seconds)
            used = (_cpu_s(agent.pid) - before) / (time.monotonic() - at)
            print(f"a process, {seconds} s: {used * 100:.2f} % of a core, {_memory_mib(agent.pid):.0f} MiB")
            spent = await _create(node, peer, seconds)
            waits = {"median_ms": spent[len(spent) // 2], "p99_ms": spent[int(len(spent) * 0.99)]}
            print(f"  a container waits {waits['median_ms']:.1f} ms, p99 {waits['p99_ms']:.1f}")
            tell("process", core=used, memory_mib=_memory_mib(agent.pid), **waits)
        finally:
            agent.terminate()
            agent.wait(30)
            await runtime.stop()
            await bus.close()


def _environ(node: NodeOfFiles, folder: Path, server: NatsServer, *, is_alone: bool) -> dict[str, str]:
    given = {
        "NODE_NAME": NODE,
        "NATS_URL": server.url,
        "ENFORCE": "true",
        "CPUS": "true",
        "PROC_ROOT": str(node.root / "proc"),
        "SYS_ROOT": str(node.root / "sys"),
        "HOST_ROOT": str(node.root / "host"),
        "JOURNAL_FILE": str(folder / "journal"),
        "PODS_FILE": str(folder / "pods"),
        "PEAKS_FILE": str(folder / "peaks"),
        "STRATEGY_FILE": str(folder / "strategy"),
        "NRI_SOCKET": str(folder / "nri.sock"),
        "KUBELET_ROOT": "",
        "LOG_LEVEL": "error",
    }
    given |= {f"ENFORCE_{name}": str(not is_alone).lower() for name in ("NETWORK", "CORES", "KERNEL", "PERF")}
    return {**os.environ, **{f"BERTH_{name}": value for name, value in given.items()}}


async def _wait(node: NodeOfFiles, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        node.advance()
        await asyncio.sleep(1.0)


async def _create(node: NodeOfFiles, peer: PluginPeer, seconds: int) -> list[float]:
    """Containers that begin meanwhile, in milliseconds, ascending."""
    listed, spent = node.listed(), []
    until, moved_at = time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < until:
        # Never while an answer is on its way: this process could not read it.
        if now - moved_at >= 1.0:
            node.advance()
            moved_at = now
        pod = listed.pods[len(spent) % len(listed.pods)]
        container = api.Container(id=f"new-{len(spent)}", pod_sandbox_id=pod.id, name="c0", state=api.CONTAINER_CREATED)
        before = time.perf_counter()
        asked = api.CreateContainerRequest(pod=pod, container=container)
        await peer.call("CreateContainer", asked, api.CreateContainerResponse)
        spent.append((time.perf_counter() - before) * 1000)
        await peer.call("StateChange", api.StateChangeEvent(event=api.REMOVE_CONTAINER, pod=pod, container=container))
        await asyncio.sleep(random.uniform(0, 2 * CREATED_S))
    return sorted(spent)


def _cpu_s(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--containers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--enforce-alone", action="store_true", help="the process has no other component's rights")
    given = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        rounds(Path(folder), given.pods, given.containers, given.rounds)
        if given.seconds:
            asyncio.run(whole(Path(folder), given.pods, given.containers, given.seconds, is_alone=given.enforce_alone))


if __name__ == "__main__":
    main()
