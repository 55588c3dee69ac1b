"""CPUs and NUMA nodes of a machine, as its kernel's files describe them, for the node's report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.node_report import PinnedCpus, ReportedCore, ReportedCpu, ReportedKubelet, ReportedZone
from berth.kubelet.core.configz import KubeletConfig
from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted
from berth.node_qos_enforcer.core.topology import Processor
from berth.resources.quantity import format_bytes
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset, read_cpuset
from berth.rules.cpus.kubelet import STATIC, Checkpoint
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.cpus.node_reservation import cpus_by_number

KIB: Final = 1024
MEMORY_MAX: Final = 1 << 60
PAGES: Final = re.compile(r"hugepages-([1-9][0-9]{0,9})kB", re.ASCII)
TEXT_MAX: Final = 256
OPTIONS_MAX: Final = 32
PINNED_MAX: Final = 1_024
_MODEL: Final = re.compile(r"^(model name|Model Name)\s*:\s*(.*)$", re.MULTILINE)
_VENDOR: Final = re.compile(r"^vendor_id\s*:\s*(\S+)", re.MULTILINE)
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]{1,16}")


class Cpus(NamedTuple):
    """What a look found of the CPUs: `cores` by socket and core id, `zones` ascending."""

    cores: tuple[ReportedCore, ...]
    zones: tuple[ReportedZone, ...]
    cpu: ReportedCpu = ReportedCpu()

    @property
    def layout(self) -> CpuLayout:
        """The same as a layout."""
        return CpuLayout(
            Cpu(cpu, core.core, core.socket, core.zone) for core in self.cores for cpu in _members(core.cpus)
        )


def cores_of(rows: Sequence[Processor]) -> tuple[ReportedCore, ...]:
    """The cores. Where a machine gives one core id of a socket to cores of several NUMA nodes (dies that number their
    cores each for itself), all cores are known by their first CPU instead."""
    by_place: dict[tuple[int, int, int], list[int]] = {}
    for row in rows:
        by_place.setdefault((row.socket, row.core, row.node), []).append(row.cpu)
    are_unique = len({place[:2] for place in by_place}) == len(by_place)
    cores = [
        ReportedCore(socket=socket, core=core if are_unique else min(cpus), zone=zone, cpus=format_cpuset(cpus))
        for (socket, core, zone), cpus in by_place.items()
    ]
    return tuple(sorted(cores, key=lambda each: (each.socket, each.core)))


def socket_of_zones(cores: Iterable[ReportedCore]) -> dict[int, int]:
    """The socket of each zone that lies in one."""
    sockets: dict[int, set[int]] = {}
    for core in cores:
        sockets.setdefault(core.zone, set()).add(core.socket)
    return {zone: min(found) for zone, found in sockets.items() if len(found) == 1}


def zone_of(zone: int, meminfo: str, pages: Mapping[str, str], distances: str, file: str) -> ReportedZone:
    """One NUMA node from its `meminfo`, its number of pages by folder (`hugepages-2048kB`) and its `distance`.

    Raises:
        Malformed: what is no number, more than any machine has, or more set apart than there is; names `file`.
    """
    memory = memory_total(meminfo, f"{file}/meminfo")
    hugepages: dict[str, int] = {}
    for folder, text in sorted(pages.items()):
        match = PAGES.fullmatch(folder)
        if match is None:
            continue
        size = int(match[1]) * KIB
        number = counter(f"{file}/hugepages/{folder}", "nr_hugepages", text.strip())
        if number * size > MEMORY_MAX:
            raise Malformed(f"{file}/hugepages/{folder}", f"{number} pages are more than any machine has")
        hugepages[f"hugepages-{format_bytes(size)}"] = number * size
    if sum(hugepages.values()) > memory:
        raise Malformed(f"{file}/hugepages", "more pages are set apart than there is memory")
    words = [counter(f"{file}/distance", "distance", word) for word in distances.split()]
    if any(word > 1_000_000 for word in words):
        raise Malformed(f"{file}/distance", f"is no distance: {quoted(distances)}")
    return ReportedZone(zone=zone, memory=memory, hugepages=hugepages, distances=words)


def memory_total(meminfo: str, file: str) -> int:
    """`MemTotal` in bytes, also of a NUMA node, whose lines begin with `Node N`. Raises Malformed."""
    for line in meminfo.splitlines()[:256]:
        key, _, rest = line.partition(":")
        words = rest.split()
        if key.split(" ")[-1] == "MemTotal":
            if len(words) != 2 or words[1] != "kB":
                raise Malformed(file, f"MemTotal is not a number of kB: {quoted(rest.strip())}")
            memory = counter(file, "MemTotal", words[0]) * KIB
            if memory > MEMORY_MAX:
                raise Malformed(file, f"MemTotal is more than any machine has: {quoted(words[0])}")
            return memory
    raise Malformed(file, "MemTotal is missing")


def cpu_of(cpuinfo: str, cores: Sequence[ReportedCore], *, smt: str, no_turbo: str, l3_mask: str) -> ReportedCpu:
    """What CPUs they are, by the beginning of `/proc/cpuinfo` and three files of /sys; empty: not there."""
    model, vendor = _MODEL.search(cpuinfo), _VENDOR.search(cpuinfo)
    mask = l3_mask.strip()
    return ReportedCpu(
        model=model[2].strip()[:TEXT_MAX] if model else "",
        vendor=vendor[1][:TEXT_MAX] if vendor else "",
        hyper_threads=smt.strip() == "1" if smt else any(len(_members(core.cpus)) > 1 for core in cores),
        turbo=no_turbo.strip() == "0",
        l3_mask=mask if _HEXADECIMAL.fullmatch(mask) else "",
    )


def kubelet_of(
    config: KubeletConfig | None, checkpoint: Checkpoint | None, layout: CpuLayout
) -> tuple[ReportedKubelet, tuple[Problem, ...]]:
    """What kubelet does, by its configuration and its checkpoint, as far as there are any.

    Kubelet's configuration goes before its checkpoint, which may be that of a former one. Where it keeps a number of
    CPUs and lists none, they are the ones that it would choose.
    """
    problems: list[Problem] = []
    policy = (config.cpu_manager_policy if config is not None else "") or (checkpoint.policy if checkpoint else "")
    reserved = NO_CPUS
    if config is not None and config.reserved_system_cpus:
        read = read_cpuset(config.reserved_system_cpus, "kubeletconfig.reservedSystemCPUs")
        if isinstance(read, Problem):
            problems.append(read)
        else:
            reserved = read
    elif config is not None and policy == STATIC:
        reserved = cpus_by_number(layout, min(config.reserved_cpu_count, len(layout.all)))
    entries = checkpoint.entries if checkpoint is not None and checkpoint.policy == STATIC else {}
    pinned = [
        PinnedCpus(uid=uid[:TEXT_MAX], cpus=format_cpuset(NO_CPUS.union(*containers.values())))
        for uid, containers in sorted(entries.items())
    ]
    if len(pinned) > PINNED_MAX:
        problems.append(Problem(field="cpu_manager_state.entries", message=f"has more than {PINNED_MAX} pods"))
    options = config.cpu_manager_policy_options if config is not None else {}
    report = ReportedKubelet(
        cpu_manager=policy[:TEXT_MAX],
        cpu_manager_options={key[:TEXT_MAX]: value[:TEXT_MAX] for key, value in sorted(options.items())[:OPTIONS_MAX]},
        reserved_cpus=format_cpuset(reserved),
        topology_manager=config.topology_manager_policy[:TEXT_MAX] if config is not None else "",
        topology_scope=config.topology_manager_scope[:TEXT_MAX] if config is not None else "",
        pinned=pinned[:PINNED_MAX],
    )
    return report, tuple(problems)


def _members(cpus: str) -> frozenset[int]:
    found = read_cpuset(cpus, "cpus")
    return NO_CPUS if isinstance(found, Problem) else found
