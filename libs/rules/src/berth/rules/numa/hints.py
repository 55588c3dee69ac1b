"""Which sets of zones could hold a pod, as each provider says: one list of hints for each resource.

CPUs, memory and hugepages are one provider, here; devices are another one, with hints of the same kind. A set gets a
hint when the whole request fits it and each of its zones has something of the resource; the smallest such sets of a
resource are preferred. Kubelet would say "smallest" of what a node has; here it is of what is free now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.cpus.bind_policy import NO_LAYOUT
from berth.rules.cpus.kubelet import RESTRICTED
from berth.rules.numa.scores import shown_request, zones_score
from berth.rules.numa.split import Need, NodeZones, ZoneRequest, can_split, zone_needs
from berth.rules.numa.zone_sets import ZoneSet, zone_sets

NO_ZONES: Final = "node(s) missing NUMA resources"


class Hint(NamedTuple):
    """A set of zones that could serve; None: any. A `score` compares sets of one size."""

    zones: ZoneSet | None
    preferred: bool = True
    score: int = 0


Hints = Mapping[str, Sequence[Hint] | None]
"""What a provider says, by resource. None: any zones will do. No hint at all: no zones will do."""


class ZoneHints(NamedTuple):
    """The hints for each resource that zones report; or the `reason` why there can be none.

    `lacking`: what all zones together have too little of, and how much too little.
    """

    hints: Mapping[str, list[Hint]] = {}
    reason: str = ""
    lacking: Mapping[str, int] = {}


def zone_hints(
    node: NodeZones,
    request: ZoneRequest,
    *,
    policy: str,
    strategy: str = "",
    weights: Mapping[str, int] | None = None,
    up_to: int | None = None,
) -> ZoneHints:
    """The sets of zones that hold a pod's CPUs, memory and hugepages.

    Args:
        node: the zones as they stand for this pod.
        request: what it asks for.
        policy: the NUMA policy; under Restricted every set is preferred.
        strategy: MostAllocated or LeastAllocated, of the scores.
        weights: the resources that the scores count.
        up_to: sets of more zones than this, and than the smallest that hold all of it, are left out. None: none is.
    """
    if not node.zones:
        return ZoneHints(reason=NO_ZONES)
    if request.own_cpus > 0 and node.layout is None:
        return ZoneHints(reason=NO_LAYOUT)
    needs = zone_needs(node, request)
    if not needs:
        return ZoneHints()
    shown = shown_request(request.amounts, own_cpus=request.own_cpus, ratio=node.ratio)
    with_something = tuple(zone for zone in node.zones if any(need.offered.get(zone, 0) > 0 for need in needs))
    rankings = [_most_first(need, with_something) for need in needs]
    found: dict[str, list[tuple[ZoneSet, int]]] = {need.name: [] for need in needs}
    enough = len(with_something)
    for zones in zone_sets(with_something, rankings):
        if up_to is not None and len(zones) > max(up_to, enough):
            break
        if not all(can_split(need, zones) for need in needs):
            continue
        score = zones_score(strategy, weights or {}, zones, capacity=node.capacity, use=node.use, request=shown)
        has_some = [need.name for need in needs if all(_offered(need, zone) > 0 for zone in zones)]
        for name in has_some:
            found[name].append((zones, score))
        if len(has_some) == len(needs):
            enough = min(enough, len(zones))
    hints = {name: _preferring_smallest(sets, always=policy == RESTRICTED) for name, sets in found.items()}
    totals = {need.name: need.amount - sum(need.offered.values()) for need in needs}
    return ZoneHints(hints, lacking={name: amount for name, amount in totals.items() if amount > 0})


def _preferring_smallest(sets: Sequence[tuple[ZoneSet, int]], *, always: bool = False) -> list[Hint]:
    smallest = min((len(zones) for zones, _ in sets), default=0)
    return [Hint(zones, always or len(zones) == smallest, score) for zones, score in sets]


def _most_first(need: Need, zones: ZoneSet) -> list[int]:
    return sorted(zones, key=lambda zone: (-_offered(need, zone), zone))


def _offered(need: Need, zone: int) -> int:
    return need.offered.get(zone, 0)
