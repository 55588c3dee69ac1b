"""The agent on this machine's own kernel: busy best-effort work in a real control group is squeezed and let go again.

Below a group made for the test, so that nobody else's pods are touched; /proc is made of files, because what else this
machine is doing is not the test's. Needs root and control groups that may be written: version 1, or 2 with cpu, cpuset
and memory handed down from the root.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from berth.bus import Bus, BusSettings
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.metrics import NodeMetrics
from berth.contracts.slo import CpuSuppress, NodeSLO
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.strategies.knobs import CPUSET
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.views import node_key

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
NODE = "real-node"
DEADLINE_S = 90.0


def version() -> int:
    """Which control groups this process may make; 0: none."""
    if os.geteuid() != 0:
        return 0
    handed_down = ROOT / "cgroup.subtree_control"
    if handed_down.exists():
        usable = {"cpu", "cpuset", "memory"} <= set(handed_down.read_text().split())
        return 2 if usable and os.access(ROOT, os.W_OK) else 0
    return 1 if all(os.access(ROOT / each / "cgroup.procs", os.W_OK) for each in CONTROLLERS) else 0


VERSION = version()
pytestmark = pytest.mark.skipif(VERSION == 0, reason="needs root and control groups that may be written")


class Groups(NamedTuple):
    """A node's groups: `root` is what the agent takes for /sys/fs/cgroup, `tops` what was made in each hierarchy."""

    root: Path
    tops: dict[str, Path]

    def path(self, controller: str, group: str) -> Path:
        return self.tops[controller] / group

    def add(self, pid: int, group: str) -> None:
        for top in set(self.tops.values()):
            (top / group / "cgroup.procs").write_text(str(pid))

    def quota_us(self) -> int:
        if VERSION == 2:
            word = (self.path("cpu", "kubepods/besteffort") / "cpu.max").read_text().split()[0]
            return -1 if word == "max" else int(word)
        return int((self.path("cpu", "kubepods/besteffort") / "cpu.cfs_quota_us").read_text())

    def throttled(self) -> int:
        text = (self.path("cpu", "kubepods/besteffort") / "cpu.stat").read_text()
        return int(dict(line.split() for line in text.splitlines())["nr_throttled"])


GROUPS = ("kubepods", "kubepods/burstable", "kubepods/besteffort", "kubepods/besteffort/podbe")
LEAVES = ("kubepods/burstable/podls", "kubepods/besteffort/podbe/c1")


@pytest.fixture
def groups(tmp_path):
    """Groups as kubelet makes them, gone again at the end with everything in them."""
    name = f"berth-test-{os.getpid()}-{time.monotonic_ns()}"
    if VERSION == 2:
        tops, root = dict.fromkeys(CONTROLLERS, ROOT / name), ROOT / name
    else:
        tops, root = {each: ROOT / each / name for each in CONTROLLERS}, tmp_path / "cgroup"
        root.mkdir()
        for each, top in tops.items():
            (root / each).symlink_to(top)
    made: list[Path] = []
    try:
        for top in dict.fromkeys(tops.values()):
            for group in ("", *GROUPS, *LEAVES):
                path = top / group
                path.mkdir()
                made.append(path)
                if VERSION == 2 and group not in LEAVES:
                    (path / "cgroup.subtree_control").write_text("+cpu +cpuset +memory")
                if top.parent.name == "cpuset":
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        (path / file).write_text((path.parent / file).read_text())
        # However busy the machine is, it is the quota that stops best-effort work here, not its neighbours.
        share = ("cpu.weight", "10000") if VERSION == 2 else ("cpu.shares", "262144")
        (tops["cpu"] / share[0]).write_text(share[1])
        yield Groups(root, tops)
    finally:
        for path in reversed(made):
            deadline = time.monotonic() + 10
            while path.exists():
                with contextlib.suppress(OSError):
                    path.rmdir()
                assert time.monotonic() < deadline, f"{path} stays behind"
                time.sleep(0.01)


@pytest.fixture
def busy(groups):
    """A service that works a little, and best-effort work that uses all the CPU it gets while it is `working`."""
    works = ("import time\nwhile True:\n    sum(range(20_000))\n    time.sleep(0.02)", "while True: pass")
    processes = []
    try:
        for group, work in zip(LEAVES, works, strict=True):
            process = subprocess.Popen([sys.executable, "-c", work])
            processes.append(process)
            groups.add(process.pid, group)
        process.send_signal(signal.SIGSTOP)
        yield {group: process.pid for group, process in zip(LEAVES, processes, strict=True)}
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def working(pid: int):
    """It is not for longer than it has to be: nobody else gets the CPU that it uses."""
    os.kill(pid, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGSTOP)


async def until(holds, what: str):
    deadline = time.monotonic() + DEADLINE_S
    while not (value := holds()):
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.02)
    return value


class Latest:
    """The newest message of the node."""

    metrics: NodeMetrics | None = None

    def reset(self):
        pass

    def apply(self, entry):
        self.metrics = decode(entry.value, NodeMetrics)

    def end(self, sequence):
        pass


def rule(threshold_percent: int, *, enabled: bool = True) -> bytes:
    told = CpuSuppress(enabled=enabled, threshold_percent=threshold_percent, policy="cfsQuota")
    return encode(NodeSLO(node=NODE, cpu_suppress=told))


@contextlib.contextmanager
def agent(server, groups, machine, tmp_path):
    """The agent as a process, enforcing."""
    environ = os.environ | {
        "BERTH_NATS_URL": server.url,
        "BERTH_NODE_NAME": NODE,
        "BERTH_ENFORCE": "true",
        "BERTH_ENFORCE_INTERVAL_S": "0.2",
        "BERTH_INTERVAL_S": "0.5",
        "BERTH_STRATEGY_FILE": str(tmp_path / "strategy.json"),
        "BERTH_PROC_ROOT": str(machine.root / "proc"),
        "BERTH_CGROUP_ROOT": str(groups.root),
        "BERTH_EXIT_WITH_PARENT": "true",
    }
    process = subprocess.Popen([sys.executable, "-m", "berth.node_qos_enforcer"], env=environ)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def test_best_effort_work_is_squeezed_and_let_go(nats_server, groups, busy, modern_machine, tmp_path):
    capacity_us = os.sysconf("SC_NPROCESSORS_ONLN") * 100_000
    file = tmp_path / "strategy.json"
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="test")
    try:
        await bus.ensure()
        latest = Latest()
        following = asyncio.create_task(bus.follow(buckets.METRICS, latest, keys=node_key(NODE)).run())
        slo = bus.owned(buckets.SLO)
        with agent(nats_server, groups, modern_machine, tmp_path) as process:
            # Nothing is known of a strategy: figures come, nothing is written.
            await until(lambda: latest.metrics and latest.metrics.interval_s, "figures")
            assert groups.quota_us() == -1

            # A threshold of 10 % leaves best-effort work that much, less what the service uses.
            slo.put(node_key(NODE), rule(10))
            await until(lambda: 0 < groups.quota_us() <= capacity_us // 10, "a squeeze")
            before = groups.throttled()
            with working(busy[LEAVES[1]]):
                await until(lambda: groups.throttled() > before + 3, "the kernel stops it")
            held = await until(lambda: (got := latest.metrics.best_effort) and got.quota_us > 0 and got, "it is told")
            assert (held.policy, held.enforced) == ("cfsQuota", True)
            await until(file.exists, "the strategy is kept")

            # More capacity: the quota grows, a tenth of the machine a round.
            squeezed = groups.quota_us()
            slo.put(node_key(NODE), rule(100))
            await until(lambda: groups.quota_us() > squeezed + capacity_us // 10, "growth")
            slo.put(node_key(NODE), rule(10))
            await until(lambda: groups.quota_us() <= capacity_us // 10, "a squeeze again")

            # Killed, and the bus away: the next life goes on from its file.
            await until(lambda: b":10," in file.read_bytes(), "the last strategy is kept")
            process.kill()
            process.wait()
            nats_server.kill()
            assert groups.quota_us() > 0
            (
                groups.path("cpu", "kubepods/besteffort") / ("cpu.max" if VERSION == 2 else "cpu.cfs_quota_us")
            ).write_text("max" if VERSION == 2 else "-1")
        with agent(nats_server, groups, modern_machine, tmp_path) as process:
            await until(lambda: 0 < groups.quota_us() <= capacity_us // 10, "a squeeze without a bus")
            nats_server.start()
            slo.put(node_key(NODE), rule(10, enabled=False))
            await until(lambda: groups.quota_us() == -1, "a strategy that is switched off lets go")
            slo.put(node_key(NODE), rule(10))
            await until(lambda: 0 < groups.quota_us() <= capacity_us // 10, "a squeeze again")
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0
            assert groups.quota_us() == -1, "an agent that ends lets go"
        following.cancel()
        await asyncio.wait({following})
    finally:
        await bus.close()


def allowed(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_best_effort_work_keeps_to_its_cpus_until_it_is_let_go(groups, busy):
    ls, be = (busy[group] for group in LEAVES)
    applier = Applier(Executor(DiskTree(groups.root)))
    layout = cgroups.detect_layout(applier.executor.tree)
    top = "kubepods/besteffort"
    names = (top, f"{top}/podbe", f"{top}/podbe/c1") if layout.cpuset.version == 1 else (top,)
    before = allowed(be)
    every = cgroups.read_cpuset(applier.executor.tree, layout, "kubepods")
    for cpu in sorted(every)[:2]:
        wanted = Composed({Ref(name, CPUSET): str(cpu) for name in names})
        applied = applier.apply(layout, wanted, asked=lambda _: None, undecided=frozenset(), now_s=0.0)
        assert applied.problems == ()
        assert allowed(be) == str(cpu)
        assert cgroups.read_cpuset(applier.executor.tree, layout, top) == {cpu}
        assert allowed(ls) == before
    assert give_back(applier.executor) == ()
    assert allowed(be) == before
    assert cgroups.read_cpuset(applier.executor.tree, layout, top) == every
