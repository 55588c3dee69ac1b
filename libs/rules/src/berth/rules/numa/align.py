"""One pod on one node: the zones that all providers agree on, and what of each it gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from berth.contracts.names import CPU
from berth.rules.cpus.kubelet import BEST_EFFORT, SINGLE_NUMA_NODE
from berth.rules.numa.exclusive import NOT_EXCLUSIVE, may_hold
from berth.rules.numa.hints import Hints, zone_hints
from berth.rules.numa.merge import Alignment, merge
from berth.rules.numa.policy import POLICIES, REQUIRED
from berth.rules.numa.split import Allocation, NodeZones, ZoneRequest, allocate, missing
from berth.rules.numa.zone_sets import ZoneSet

_UNBOUND = Alignment(None, admitted=True, preferred=True)


class Placement(NamedTuple):
    """The zones and what the pod gets of them; or `reasons`, as many as `alignment` or `allocation` has.

    `lacking`: what all zones together have too little of, and how much too little.
    """

    alignment: Alignment
    allocation: Allocation = Allocation()
    reasons: tuple[str, ...] = ()
    lacking: Mapping[str, int] = {}

    @property
    def zones(self) -> ZoneSet | None:
        """The zones that everything of the pod stays on; None: it is bound to none."""
        return self.alignment.zones


def align(
    node: NodeZones,
    request: ZoneRequest,
    *,
    policy: str,
    exclusive: str = "",
    status: Mapping[int, str] | None = None,
    others: Iterable[Hints] = (),
    strategy: str = "",
    weights: Mapping[str, int] | None = None,
) -> Placement:
    """Place a pod on zones of a node.

    BestEffort is decided here as the others are, not only when the pod goes to the node: a pod that the agreed zones
    cannot hold goes to all of them, if these can.

    Args:
        node: its zones as they stand for this pod.
        request: what the pod asks of them.
        policy: the policy of pod and node; with none the pod is bound to no zone, and gets nothing here.
        exclusive: Required, or anything else for no such wish.
        status: how each zone is held (`zone_status`).
        others: what other providers say: devices.
        strategy: MostAllocated or LeastAllocated, among sets of zones.
        weights: the resources that this strategy counts.
    """
    if policy not in POLICIES:
        return Placement(_UNBOUND)
    beside = [*others]
    hints = partial(zone_hints, node, request, policy=policy, strategy=strategy, weights=weights)
    agree = partial(merge, node.zones, policy=policy, exclusive=exclusive, status=status)
    # A set that all prefer is among the small ones, if there is any; the larger ones matter where there is none.
    own = hints(up_to=_largest_preferred(beside))
    if own.reason:
        return _refused(Alignment(None, admitted=False), (own.reason,))
    alignment = agree([own.hints, *beside])
    if policy != SINGLE_NUMA_NODE and not (alignment.admitted and alignment.preferred):
        own = hints()
        alignment = agree([own.hints, *beside])
    if not alignment.admitted:
        return _refused(alignment, alignment.reasons, own.lacking)
    if alignment.zones is None:
        return _refused(alignment, (missing(CPU),)) if request.own_cpus > 0 else Placement(alignment)
    allocation = allocate(node, request, alignment.zones)
    may_widen = policy == BEST_EFFORT and (exclusive != REQUIRED or may_hold(node.zones, status or {}))
    if not allocation.fits and may_widen and alignment.zones != node.zones:
        alignment = Alignment(node.zones, admitted=True)
        allocation = allocate(node, request, node.zones)
    used = tuple(each.zone for each in allocation.zones)
    if exclusive == REQUIRED and used and not may_hold(used, status or {}):
        # It lies on fewer zones than agreed on, where it meets whom it must not.
        return _refused(alignment, (NOT_EXCLUSIVE,), own.lacking)
    return Placement(alignment, allocation, allocation.reasons, own.lacking)


def _largest_preferred(providers: Iterable[Hints]) -> int:
    """The number of zones of the largest set that some provider prefers; 1 where none minds."""
    hints = (hint for each in providers for sets in each.values() for hint in sets or ())
    return max((len(hint.zones) for hint in hints if hint.preferred and hint.zones is not None), default=1)


def _refused(alignment: Alignment, reasons: tuple[str, ...], lacking: Mapping[str, int] | None = None) -> Placement:
    return Placement(alignment, Allocation(reasons=reasons), reasons, lacking or {})
