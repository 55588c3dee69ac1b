"""What INVENTORY says of the CPUs and NUMA nodes of one node, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from berth.contracts.topology import CoreCpus, NodeTopology
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.kubelet import FULL_CORES_OPTION as FULL_CORES
from berth.rules.cpus.kubelet import CpuManager
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.numa.charges import ZoneAmounts

LAYOUTS_MAX: Final = 256
"""So many different layouts are compiled once for all nodes that have them."""


class Ground(NamedTuple):
    """`layout` is None, `capacity` empty where nothing is known. `ratio` is 0 where the topology does not say it."""

    layout: CpuLayout | None = None
    reserved: frozenset[int] = NO_CPUS
    capacity: ZoneAmounts = {}
    manager: CpuManager = CpuManager()
    policy: str = ""
    ratio: float = 0.0

    @property
    def own_cpus(self) -> int:
        """How many CPUs pods may have as their own, all in all."""
        return len(self.layout.all - self.reserved) if self.layout is not None else 0


NOWHERE: Final = Ground()


def ground_of(topology: NodeTopology | None) -> Ground:
    """The CPUs and NUMA nodes of a topology."""
    if topology is None:
        return NOWHERE
    options = {FULL_CORES: "true"} if topology.full_cores else {}
    return Ground(
        layout=layout_of(topology.cores),
        reserved=frozenset(topology.reserved),
        capacity={each.zone: each.amounts for each in topology.zones},
        manager=CpuManager(topology.cpu_manager, options),
        policy=topology.policy,
        ratio=topology.cpu_ratio,
    )


def layout_of(cores: list[CoreCpus]) -> CpuLayout | None:
    """The layout of these cores; None: there are none."""
    return _layout(tuple((core.zone, core.socket, tuple(core.cpus)) for core in cores)) if cores else None


@lru_cache(maxsize=LAYOUTS_MAX)
def _layout(cores: tuple[tuple[int, int, tuple[int, ...]], ...]) -> CpuLayout:
    return CpuLayout(Cpu(cpu, place, socket, zone) for place, (zone, socket, cpus) in enumerate(cores) for cpu in cpus)
