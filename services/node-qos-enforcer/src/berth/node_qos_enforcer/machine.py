"""The CPUs of this machine: their layout from /sys, their kind from /proc, without a child process.

The same rows as `lscpu` prints; CPUs that are offline are not there. A kernel without NUMA has everything on node 0.
"""

from __future__ import annotations

from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed, counter
from berth.node_qos_enforcer.core.proc import UNKNOWN_CPU, Cpu, parse_cpu_flags, parse_rdt, parse_vendor
from berth.node_qos_enforcer.core.topology import MAX_PROCESSORS, Processor, in_order
from berth.node_qos_enforcer.files import FileTree, Unreadable

CPUS = "devices/system/cpu"
NODES = "devices/system/node"
MAX_NODES = 1_024


def read_online_cpus(sys: FileTree) -> frozenset[int]:
    """Return the CPUs that are online. Raises Malformed when the kernel does not say, and Unreadable."""
    text = sys.read(f"{CPUS}/online")
    cpus = frozenset[int]() if text is None else parse_cpuset(text, field=f"{CPUS}/online")
    if not cpus:
        raise Malformed(f"{CPUS}/online", "no CPU is online")
    return cpus


def read_topology(sys: FileTree) -> list[Processor]:
    """Return every online CPU with its core, socket and NUMA node. Raises Malformed, Unreadable."""
    node_of = _numa_nodes(sys)
    rows = [
        Processor(
            cpu=cpu,
            core=_number(sys, f"{CPUS}/cpu{cpu}/topology/core_id", default=cpu),
            socket=_number(sys, f"{CPUS}/cpu{cpu}/topology/physical_package_id", default=0),
            node=node_of.get(cpu, 0),
        )
        for cpu in sorted(read_online_cpus(sys))[:MAX_PROCESSORS]
    ]
    return in_order(rows)


def _numa_nodes(sys: FileTree) -> dict[int, int]:
    online = sys.read(f"{NODES}/online")
    node_of: dict[int, int] = {}
    for node in sorted(parse_cpuset(online or "", field=f"{NODES}/online"))[:MAX_NODES]:
        path = f"{NODES}/node{node}/cpulist"
        node_of.update(dict.fromkeys(parse_cpuset(sys.read(path) or "", field=path), node))
    return node_of


def _number(sys: FileTree, path: str, *, default: int) -> int:
    """Read a number; a missing file or the kernel's -1 (not known, as on some virtual machines) gives the default."""
    text = sys.read(path)
    word = "" if text is None else text.strip()
    return default if word in ("", "-1") else counter(path, "number", word)


def read_cpu(proc: FileTree) -> Cpu:
    """What kind the CPUs are of; a file that cannot be read says nothing."""
    try:
        about, told = proc.read("cpuinfo") or "", proc.read("cmdline") or ""
    except Unreadable:
        return UNKNOWN_CPU
    return Cpu(parse_vendor(about), parse_cpu_flags(about), parse_rdt(told))
