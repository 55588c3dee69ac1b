"""Which control-group files this machine has: version 1, version 2, or both side by side.

A kernel mounts a hierarchy per controller (1), one for all (2), or controllers in 1 with an additional empty tree of
2 (hybrid, systemd's `unified`). Each question goes to the controller that can answer it: usage and limits to wherever
the controller lives, pressure to a tree of version 2 only. The driver is seen from the directory that kubelet makes;
no such directory means no kubelet here, which is normal on a laptop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from berth.node_qos_enforcer.core.cgroup_files import (
    Bandwidth,
    Version,
    parse_bandwidth,
    parse_bandwidth_v1,
    parse_cpu_usage_ns,
    parse_memory_in_use,
    parse_memory_stat,
)
from berth.node_qos_enforcer.core.cgroup_paths import DRIVERS, Driver, qos_dir
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.laws.cold_memory import FILE as IDLE_PAGES
from berth.node_qos_enforcer.core.laws.cold_memory import (
    HOT_CACHE,
    WITH_CACHE,
    IdlePages,
    group_usage,
    parse_idle_pages,
)
from berth.node_qos_enforcer.core.malformed import counter
from berth.node_qos_enforcer.files import FileTree

Mode = Literal["v1", "v2", "hybrid", "none"]

UNIFIED = "unified"
_V1_DIRS = {
    "cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu"),
    "cpuacct": ("cpuacct", "cpu,cpuacct", "cpuacct,cpu"),
    "cpuset": ("cpuset",),
    "memory": ("memory",),
    "blkio": ("blkio",),
    "net_cls": ("net_cls", "net_cls,net_prio", "net_prio,net_cls"),
}
_V2_NAMES = {"cpuacct": "cpu", "blkio": "io"}
"""What version 2 calls a controller of version 1."""


class Controller(NamedTuple):
    """Where a controller's hierarchy is (below the control-group root) and which version its files have."""

    root: str
    version: Version

    def path(self, group: str, file: str = "") -> str:
        """Give the path of a group's file (or of the group) below the control-group root."""
        if self.root:
            group = f"{self.root}/{group}" if group else self.root
        return f"{group}/{file}" if group and file else group or file


class Layout(NamedTuple):
    """The control groups of one machine; None: the machine does not have this controller."""

    mode: Mode
    cpu: Controller | None = None
    cpuacct: Controller | None = None
    cpuset: Controller | None = None
    memory: Controller | None = None
    pressure: Controller | None = None
    blkio: Controller | None = None
    net_cls: Controller | None = None

    def controller(self, name: str) -> Controller | None:
        """The one of that name; None: this machine has none."""
        found = getattr(self, name, None)
        return found if isinstance(found, Controller) else None

    @property
    def version(self) -> int:
        """Return 1 or 2 by where usage is counted, 0 without control groups."""
        return self.cpuacct.version if self.cpuacct is not None else 0


def detect_layout(tree: FileTree) -> Layout:
    """Look at the control-group root and return where each controller lives. Raises Unreadable."""
    if tree.read("cgroup.controllers") is not None:
        unified = Controller("", 2)
        return Layout("v2", unified, unified, unified, unified, unified, unified)
    present = set(tree.directories(""))
    v1: dict[str, Controller] = {}
    for name, candidates in _V1_DIRS.items():
        found = next((directory for directory in candidates if directory in present), None)
        if found is not None:
            v1[name] = Controller(found, 1)
    text = tree.read(f"{UNIFIED}/cgroup.controllers")
    if text is None:
        return Layout("v1" if v1 else "none", **v1)
    unified = Controller(UNIFIED, 2)
    in_unified = {name: unified for name in _V1_DIRS if _V2_NAMES.get(name, name) in text.split()}
    return Layout("hybrid", pressure=unified, **{**in_unified, **v1})


def detect_driver(tree: FileTree, layout: Layout) -> Driver | None:
    """Tell by kubelet's directory which driver names the groups; None: no kubelet has made one. Raises Unreadable."""
    for controller in (layout.cpu, layout.cpuacct, layout.memory):
        if controller is None:
            continue
        for driver in DRIVERS:
            if tree.incarnation(controller.path(qos_dir(driver, "Guaranteed"))) is not None:
                return driver
    return None


Read = Callable[[str], str | None]
"""What gives the text of a file, None when it is not there. Raises Unreadable."""


def read_cpu_usage_ns(read: Read, layout: Layout, group: str) -> int | None:
    """Return the CPU time a group has used, None when it is gone. Raises Malformed, Unreadable."""
    where = layout.cpuacct
    if where is None:
        return None
    text = read(where.path(group, "cpuacct.usage" if where.version == 1 else "cpu.stat"))
    return None if text is None else parse_cpu_usage_ns(text, where.version)


def read_memory_bytes(read: Read, layout: Layout, group: str) -> int | None:
    """Return a group's memory without page cache, None when it is gone. Raises Malformed, Unreadable."""
    where = layout.memory
    if where is None:
        return None
    text = read(where.path(group, "memory.stat"))
    return None if text is None else parse_memory_in_use(text, where.version)


def read_memory(read: Read, layout: Layout, group: str, policy: str) -> int | None:
    """Return a group's memory in use under a policy, None when it is gone. Raises Malformed, Unreadable.

    A group whose idle pages are not told has the memory that it has without page cache.
    """
    where = layout.memory
    if where is None or policy not in (HOT_CACHE, WITH_CACHE):
        return read_memory_bytes(read, layout, group)
    if policy == WITH_CACHE:
        file = "memory.usage_in_bytes" if where.version == 1 else "memory.current"
        text = read(where.path(group, file))
        return None if text is None else counter(file, "usage", text.strip())
    idle = read_idle_pages(read, layout, group)
    if idle is None:
        return read_memory_bytes(read, layout, group)
    text = read(where.path(group, "memory.stat"))
    return None if text is None else group_usage(policy, parse_memory_stat(text, where.version), idle.cold_bytes)


def read_idle_pages(read: Read, layout: Layout, group: str) -> IdlePages | None:
    """Return what kidled tells of a group, None where it does not. Raises Malformed, Unreadable."""
    text = None if layout.memory is None else read(layout.memory.path(group, IDLE_PAGES))
    found = None if text is None else parse_idle_pages(text)
    return found if found is not None and found.is_scanned else None


def read_bandwidth(tree: FileTree, layout: Layout, group: str) -> Bandwidth | None:
    """Return a group's CFS quota and period, None when it is gone (or the root, which has none). Raises Malformed."""
    where = layout.cpu
    if where is None:
        return None
    if where.version == 2:
        text = tree.read(where.path(group, "cpu.max"))
        return None if text is None else parse_bandwidth(text)
    quota = tree.read(where.path(group, "cpu.cfs_quota_us"))
    period = tree.read(where.path(group, "cpu.cfs_period_us"))
    return None if quota is None or period is None else parse_bandwidth_v1(quota, period)


def read_cpuset(tree: FileTree, layout: Layout, group: str) -> frozenset[int] | None:
    """Return the CPUs a group may really use, None when it is gone. Raises Malformed, Unreadable."""
    where = layout.cpuset
    if where is None:
        return None
    file = "cpuset.cpus" if where.version == 1 else "cpuset.cpus.effective"
    text = tree.read(where.path(group, file))
    return None if text is None else parse_cpuset(text, field=file)


def pressure_path(layout: Layout, group: str, resource: str) -> str | None:
    """Give the path of a group's pressure on `cpu`, `memory` or `io`, None where no tree of version 2 is mounted."""
    return None if layout.pressure is None else layout.pressure.path(group, f"{resource}.pressure")
