"""GPUs by minor: several lie close together; for one, how full it is says more."""

from __future__ import annotations

from berth.contracts.ledger import Grant
from berth.placement_solver.core.constraints.device_share import DeviceShare, grants_of
from berth.placement_solver.core.devices import (
    GPU,
    MOST_ALLOCATED,
    NoCapacity,
    Want,
    allocate,
    allocate_gpus,
    device_grants,
    scoring_of,
)
from berth.placement_solver.core.seams import Rejection, Target

_PACK = scoring_of(GPU, MOST_ALLOCATED)


class GPUAllocator:
    """See `Allocator`. The query is what is taken from how many cards."""

    constraint = DeviceShare.name

    def __init__(self, device_share: DeviceShare) -> None:
        self._device_share = device_share

    def choose(self, query: Want, target: Target) -> tuple[Grant, ...] | Rejection:
        """See `Allocator`."""
        preferred: set[int] = set()
        if target.reservation:
            left = (claim for claim in target.hypothesis.gone if claim.uid == target.reservation)
            preferred = {grant.minor for claim in left for grant in grants_of(claim.grants)}
        choose = allocate_gpus if query.instances > 1 else allocate
        found = choose(self._device_share.slots(target), query, scoring=_PACK, preferred=preferred)
        if isinstance(found, NoCapacity):
            return Rejection((found.reason,), not found.unresolvable)
        return tuple(device_grants(GPU, found))
