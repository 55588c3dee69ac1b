"""A machine made of files, with any layout of control groups, whose counters a test moves as it likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.sampler import Trees

GIB = 1 << 30
PSI = "some avg10={0:.2f} avg60=1.00 avg300=0.50 total=7\nfull avg10=0.25 avg60=0.10 avg300=0.05 total=3\n"


@dataclass
class FakeMachine:
    """Write what the kernel would; `mode` is v1, v2 or hybrid."""

    root: Path
    mode: str = "v2"
    driver: str = "systemd"
    cpus: int = 8
    monotonic: float = 100.0
    cpu_ns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write("sys/devices/system/cpu/online", f"0-{self.cpus - 1}\n")
        self.write("sys/devices/system/node/online", "0\n")
        self.write("sys/devices/system/node/node0/cpulist", f"0-{self.cpus - 1}\n")
        for cpu in range(self.cpus):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", f"{cpu // 2}\n")
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "0\n")
        self.node(ticks=1_000)
        if self.mode == "v2":
            self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        else:
            for controller in ("cpu", "cpuacct", "cpuset", "memory"):
                (self.root / "sys/fs/cgroup" / controller).mkdir(parents=True, exist_ok=True)
        if self.mode == "hybrid":
            self.write("sys/fs/cgroup/unified/cgroup.controllers", "\n")

    @property
    def trees(self) -> Trees:
        sys = self.root / "sys"
        return Trees(DiskTree(self.root / "proc"), DiskTree(sys), DiskTree(sys / "fs/cgroup"))

    def clock(self) -> float:
        return self.monotonic

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def node(self, *, ticks: int, total=16 * GIB, available=12 * GIB, psi: float = 1.5) -> None:
        """Set the node's own figures; ticks are hundredths of a second of all CPUs."""
        self.write("proc/stat", f"cpu  {ticks} 0 0 5000 100 0 0 0 0 0\ncpu0 {ticks} 0 0 5000 100 0 0 0 0 0\n")
        lines = {"MemTotal": total, "MemFree": available // 2, "MemAvailable": available}
        self.write("proc/meminfo", "".join(f"{key}: {value // 1024} kB\n" for key, value in lines.items()))
        for resource in ("cpu", "memory", "io"):
            self.write(f"proc/pressure/{resource}", PSI.format(psi))

    def kubelet(self) -> None:
        """Make the directories that kubelet makes, with nothing used yet."""
        for qos in ("Guaranteed", "Burstable", "BestEffort"):
            self.group(qos_dir(self.driver, qos), cpu_ns=0, memory=0)

    def pod(self, uid: str, qos: str, *, cpu_ns: int, memory: int) -> str:
        above = qos_dir(self.driver, qos)
        name = f"{above.rpartition('/')[2].removesuffix('.slice')}-pod{uid.replace('-', '_')}.slice"
        path = f"{above}/{name if self.driver == 'systemd' else f'pod{uid}'}"
        self.group(path, cpu_ns=cpu_ns, memory=memory)
        return path

    def group(self, path: str, *, cpu_ns: int, memory: int, quota: int = -1, psi: float = 2.5) -> None:
        """Write the files of one control group; a unified tree beside version 1 has pressure and nothing else."""
        base = "sys/fs/cgroup"
        if self.mode != "v1":
            unified = "" if self.mode == "v2" else "unified/"
            for resource in ("cpu", "memory", "io"):
                self.write(f"{base}/{unified}{path}/{resource}.pressure", PSI.format(psi))
        if self.mode == "v2":
            self.write(f"{base}/{path}/cpu.stat", f"usage_usec {cpu_ns // 1000}\nuser_usec 1\nsystem_usec 1\n")
            self.write(f"{base}/{path}/memory.stat", memory_stat(memory, ""))
            self.write(f"{base}/{path}/cpu.max", f"{'max' if quota < 0 else quota} 100000\n")
            self.write(f"{base}/{path}/cpuset.cpus", "\n")
            self.write(f"{base}/{path}/cpuset.cpus.effective", f"0-{self.cpus - 1}\n")
            return
        self.write(f"{base}/cpuacct/{path}/cpuacct.usage", f"{cpu_ns}\n")
        self.write(f"{base}/memory/{path}/memory.stat", memory_stat(memory, "total_"))
        self.write(f"{base}/cpu/{path}/cpu.cfs_quota_us", f"{quota}\n")
        self.write(f"{base}/cpu/{path}/cpu.cfs_period_us", "100000\n")
        self.write(f"{base}/cpuset/{path}/cpuset.cpus", f"0-{self.cpus - 1}\n")


def memory_stat(memory: int, prefix: str) -> str:
    names = ("cache", "rss") if prefix else ("file", "anon")
    pairs = {names[0]: 77, names[1]: memory, "inactive_file": 33, "active_file": 44}
    pairs |= {"inactive_anon": 0, "active_anon": memory, "unevictable": 0}
    return "".join(f"{prefix}{key} {value}\n" for key, value in pairs.items())


@pytest.fixture(params=["v1", "v2", "hybrid"])
def mode(request) -> str:
    return request.param


@pytest.fixture(params=["systemd", "cgroupfs"])
def driver(request) -> str:
    return request.param


@pytest.fixture
def fake_machine(tmp_path, mode, driver) -> FakeMachine:
    """Every layout and driver in turn."""
    return FakeMachine(tmp_path, mode, driver)


@pytest.fixture
def modern_machine(tmp_path) -> FakeMachine:
    """One control-group hierarchy, driver systemd: what most nodes have today."""
    return FakeMachine(tmp_path)
