"""CPUs and NUMA nodes of this machine, read from /sys and /proc without a child process. Nothing here writes."""

from __future__ import annotations

from typing import Final

from berth.contracts.node_report import ReportedZone
from berth.node_qos_enforcer.core.cpu_report import Cpus, cores_of, cpu_of, memory_total, zone_of
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.proc import MEMINFO
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.machine import CPUS, MAX_NODES, NODES, read_topology

HEAD_BYTES: Final = 8_192
"""The first CPU of /proc/cpuinfo stands in that; all of it is megabytes, and slow, on a large machine."""


def read_cpus(sys: DiskTree, proc: DiskTree) -> Cpus:
    """What is there now. Raises Malformed, Unreadable."""
    cores = cores_of(read_topology(sys))
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
