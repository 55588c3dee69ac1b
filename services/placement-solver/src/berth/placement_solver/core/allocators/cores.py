"""CPUs of their own and shares of NUMA nodes. Where a NUMA policy holds, what is chosen after them lies there, too."""

from __future__ import annotations

from berth.contracts.grants import CPU, one
from berth.placement_solver.core.constraints.node_numa_resource import NodeNUMAResource
from berth.placement_solver.core.cores import CoresAsked
from berth.placement_solver.core.seams import Choice, Rejection, Target
from berth.rules.records.resource_status import zone_grant


class CoreAllocator:
    """See `Allocator`. On a node that gives the pod neither it grants nothing."""

    constraint = NodeNUMAResource.name

    def __init__(self, cores: NodeNUMAResource) -> None:
        self._cores = cores

    def choose(self, query: CoresAsked, target: Target) -> Choice | Rejection:
        """See `Allocator`."""
        found = self._cores.place(query, target)
        if isinstance(found, Rejection):
            return found
        exclusive = query.binding.exclusive
        cpus = (one(CPU, str(cpu), exclusive) for cpu in sorted(found.cpus))
        shares = (zone_grant(share.zone, share.amounts) for share in found.shares)
        return Choice((*cpus, *shares), found.zones)
