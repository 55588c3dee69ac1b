"""Which core, socket and zone each CPU of a node belongs to.

Core ids are unique within their socket only, so a core is known by both. Zones (NUMA nodes) are known by their id,
which may have gaps, and cores may differ in how many CPUs (threads) they have: nothing here is an average, and nothing
is indexed by an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_CPU_TOPOLOGY
from berth.rules.bounded_json import annotation_field, read_json
from berth.rules.cpus.cpuset import CPU_MAX

ANNOTATION_LENGTH_MAX: Final = 512 * 1024
"""What `CPU_MAX` CPUs take at most. Kubernetes accepts half of that for all annotations of an object."""

_Id = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Cpu(NamedTuple):
    """One logical CPU."""

    id: int
    core: int
    socket: int
    zone: int


class Core(NamedTuple):
    """One physical core; `cpus` are its threads, ascending, `members` the same as a set."""

    socket: int
    id: int
    zone: int
    cpus: tuple[int, ...]
    members: frozenset[int]


class CpuLayout:
    """The CPUs of a node, immutable: one may stand for all nodes of the same make.

    Attributes:
        cpus: every CPU by its id, ascending.
        all: the ids of all CPUs.
        cores: by socket, then by core id.
        core_of: the core of each CPU.
        zones: the cores of each zone, zones ascending.
        zone_cpus: the CPUs of each zone, zones ascending.
        sockets: the cores of each socket, sockets ascending.
        socket_cpus: the CPUs of each socket, sockets ascending.
        threads: how many CPUs the largest core has.
        even: whether all cores have as many.
    """

    __slots__ = (
        "all",
        "core_of",
        "cores",
        "cpus",
        "even",
        "socket_cpus",
        "sockets",
        "threads",
        "zone_cpus",
        "zones",
    )

    cpus: Mapping[int, Cpu]
    all: frozenset[int]
    cores: tuple[Core, ...]
    core_of: Mapping[int, Core]
    zones: Mapping[int, tuple[Core, ...]]
    zone_cpus: Mapping[int, frozenset[int]]
    sockets: Mapping[int, tuple[Core, ...]]
    socket_cpus: Mapping[int, frozenset[int]]
    threads: int
    even: bool

    def __init__(self, cpus: Iterable[Cpu]) -> None:
        """Lay out CPUs; of several with one id the last counts. A core lies in the zone of its first CPU."""
        self.cpus = dict(sorted({cpu.id: cpu for cpu in cpus}.items()))
        self.all = frozenset(self.cpus)
        by_core: dict[tuple[int, int], list[Cpu]] = {}
        for cpu in self.cpus.values():
            by_core.setdefault((cpu.socket, cpu.core), []).append(cpu)
        self.cores = tuple(_core(each) for _, each in sorted(by_core.items()))
        self.core_of = {cpu: core for core in self.cores for cpu in core.cpus}
        self.zones = _grouped((core.zone, core) for core in self.cores)
        self.sockets = _grouped((core.socket, core) for core in self.cores)
        self.zone_cpus = {zone: _members(cores) for zone, cores in self.zones.items()}
        self.socket_cpus = {socket: _members(cores) for socket, cores in self.sockets.items()}
        self.threads = max((len(core.cpus) for core in self.cores), default=0)
        self.even = all(len(core.cpus) == self.threads for core in self.cores)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same CPUs in the same places."""
        return isinstance(other, CpuLayout) and self.cpus == other.cpus

    def __hash__(self) -> int:
        """Equal layouts have equal hashes."""
        return hash(self.all)

    def __repr__(self) -> str:
        """A short text: a layout of hundreds of CPUs would fill the page."""
        return f"CpuLayout({len(self.cpus)} CPUs, {len(self.cores)} cores, zones {list(self.zones)})"


def read_layout(annotations: Mapping[str, str]) -> CpuLayout | Problem | None:
    """The layout that a NodeResourceTopology carries; None where it carries none.

    A problem names the annotation: what is not JSON of that shape, no CPU at all, an id above `CPU_MAX`, one that
    stands twice, a core that lies in two zones. Such a node has no layout, not part of one.
    """
    text = annotations.get(ANNOTATION_CPU_TOPOLOGY)
    return _layout(text) if text else None


def format_layout(layout: CpuLayout) -> str:
    """The text of that annotation."""
    detail = [_Detail(cpu.id, cpu.core, cpu.socket, cpu.zone) for cpu in layout.cpus.values()]
    return msgspec.json.encode(_Topology(detail)).decode()


class _Detail(msgspec.Struct, frozen=True):
    id: Annotated[int, msgspec.Meta(ge=0, le=CPU_MAX)]
    core: _Id
    socket: _Id
    node: _Id


class _Topology(msgspec.Struct, frozen=True):
    detail: Annotated[list[_Detail], msgspec.Meta(min_length=1, max_length=CPU_MAX + 1)]


@lru_cache(maxsize=64)
def _layout(text: str) -> CpuLayout | Problem:
    """Cached: nodes of the same make carry the same text."""
    field = annotation_field(ANNOTATION_CPU_TOPOLOGY)
    read = read_json(text, _Topology, field, bytes_max=ANNOTATION_LENGTH_MAX)
    if isinstance(read, Problem):
        return read
    cpus = [Cpu(each.id, each.core, each.socket, each.node) for each in read.detail]
    zone_of: dict[tuple[int, int], int] = {}
    seen: set[int] = set()
    for cpu in cpus:
        if cpu.id in seen:
            return Problem(field=field, message=f"has CPU {cpu.id} twice")
        seen.add(cpu.id)
        if zone_of.setdefault((cpu.socket, cpu.core), cpu.zone) != cpu.zone:
            return Problem(field=field, message=f"has core {cpu.core} of socket {cpu.socket} in two NUMA nodes")
    return CpuLayout(cpus)


def _core(cpus: list[Cpu]) -> Core:
    first = cpus[0]
    ids = tuple(cpu.id for cpu in cpus)
    return Core(first.socket, first.core, first.zone, ids, frozenset(ids))


def _grouped(pairs: Iterable[tuple[int, Core]]) -> dict[int, tuple[Core, ...]]:
    groups: dict[int, list[Core]] = {}
    for key, core in pairs:
        groups.setdefault(key, []).append(core)
    return {key: tuple(groups[key]) for key in sorted(groups)}


def _members(cores: Iterable[Core]) -> frozenset[int]:
    return frozenset(cpu for core in cores for cpu in core.cpus)
