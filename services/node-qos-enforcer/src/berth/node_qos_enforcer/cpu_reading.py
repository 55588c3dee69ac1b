"""CPUs and NUMA nodes of this machine, read from /sys and /proc without a child process. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.contracts.node_report import ReportedCore, ReportedZone
from berth.node_qos_enforcer.core.cpu_report import Cpus, cores_of, cpu_of, memory_total, zone_of
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.proc import MEMINFO
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.machine import CPUS, MAX_NODES, NODES, read_topology

HEAD_BYTES: Final = 8_192
"""The first CPU of /proc/cpuinfo stands in that; all of it is megabytes, and slow, on a large machine."""
AGAIN_S: Final = 60.0


class Layouts:
    """Cores and their places, two files for each CPU: read anew when others are online, and now and then."""

    def __init__(self, sys: DiskTree, monotonic: Callable[[], float]) -> None:
        """Nothing is read yet."""
        self._sys = sys
        self._monotonic = monotonic
        self._online: tuple[str | None, ...] = ()
        self._read_at_s = 0.0
        self._cores: tuple[ReportedCore, ...] = ()

    def cores(self) -> tuple[ReportedCore, ...]:
        """Those that are online. Raises Malformed, Unreadable."""
        online, now_s = (self._sys.read(f"{CPUS}/online"), self._sys.read(f"{NODES}/online")), self._monotonic()
        if online != self._online or now_s - self._read_at_s >= AGAIN_S:
            self._online = ()
            self._cores = cores_of(read_topology(self._sys))
            self._online, self._read_at_s = online, now_s
        return self._cores


def read_cpus(sys: DiskTree, proc: DiskTree, cores: tuple[ReportedCore, ...]) -> Cpus:
    """What is there now. Raises Malformed, Unreadable."""
    cpu = cpu_of(
        _head(proc, "cpuinfo"),
        cores,
        smt=sys.read(f"{CPUS}/smt/active") or "",
        no_turbo=sys.read(f"{CPUS}/intel_pstate/no_turbo") or "",
        l3_mask=sys.read("fs/resctrl/info/L3/cbm_mask") or "",
    )
    return Cpus(cores, _zones(sys, proc), cpu)


def _zones(sys: DiskTree, proc: DiskTree) -> tuple[ReportedZone, ...]:
    """The NUMA nodes with memory or CPUs; a kernel without NUMA has all memory in one."""
    online = parse_cpuset(sys.read(f"{NODES}/online") or "", field=f"{NODES}/online")
    initiators = parse_cpuset(sys.read(f"{NODES}/has_generic_initiator") or "", field=f"{NODES}/has_generic_initiator")
    found = []
    for zone in sorted(online - initiators)[:MAX_NODES]:
        folder = f"{NODES}/node{zone}"
        meminfo = sys.read(f"{folder}/meminfo")
        if meminfo is None:
            continue
        pages = {
            name: sys.read(f"{folder}/hugepages/{name}/nr_hugepages") or "0"
            for name in sys.directories(f"{folder}/hugepages")
        }
        found.append(zone_of(zone, meminfo, pages, sys.read(f"{folder}/distance") or "", folder))
    if not found:
        return (ReportedZone(zone=0, memory=memory_total(proc.read("meminfo") or "", MEMINFO)),)
    return tuple(found)


def _head(tree: DiskTree, path: str) -> str:
    """The beginning of a file; empty where it is not there or may not be read."""
    try:
        with open(tree.root / path, "rb", buffering=0) as file:
            return file.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return ""
