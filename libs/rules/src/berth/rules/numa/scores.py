"""How full a node, or some of its zones, would be with the pod: scores from 0 to 100, whole numbers, divided down.

The same function scores sets of zones within a node and nodes among each other, each with its own strategy. What is in
use of a zone counts pods with CPUs of their own and all others, zone by zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from berth.contracts.names import CPU
from berth.resources.amounts import Amounts, add, add_into
from berth.rules.amplification import amplify
from berth.rules.cpus.take import MOST_ALLOCATED
from berth.rules.node_fit import is_scalar_resource
from berth.rules.numa.charges import ZoneAmounts

SCORE_MAX = 100


def least_allocated(requested: int, capacity: int) -> int:
    """The part that stays free; 0 where the request exceeds the capacity."""
    return 0 if capacity <= 0 or requested > capacity else (capacity - requested) * SCORE_MAX // capacity


def most_allocated(requested: int, capacity: int) -> int:
    """The part that is in use, at most all of it."""
    return 0 if capacity <= 0 else min(requested, capacity) * SCORE_MAX // capacity


def allocation_score(
    strategy: str,
    weights: Mapping[str, int],
    *,
    capacity: Mapping[str, int],
    requested: Mapping[str, int],
    request: Mapping[str, int],
) -> int:
    """The weighted mean over the resources that there are.

    Args:
        strategy: MostAllocated; every other text acts as LeastAllocated.
        weights: the resources that count, each with its weight. An extended resource that the pod does not ask for is
            left out.
        capacity: what there is.
        requested: what is in use already.
        request: what the pod adds.
    """
    one = most_allocated if strategy == MOST_ALLOCATED else least_allocated
    total = weight_sum = 0
    for name, weight in weights.items():
        there = capacity.get(name, 0)
        if weight <= 0 or there <= 0 or (is_scalar_resource(name) and not request.get(name)):
            continue
        total += weight * one(requested.get(name, 0) + request.get(name, 0), there)
        weight_sum += weight
    return total // weight_sum if weight_sum else 0


def zones_score(
    strategy: str,
    weights: Mapping[str, int],
    zones: Iterable[int],
    *,
    capacity: ZoneAmounts,
    use: ZoneAmounts,
    request: Mapping[str, int],
) -> int:
    """The score of these zones together; all amounts as the node shows them."""
    there: Amounts = {}
    used: Amounts = {}
    for zone in zones:
        add_into(there, capacity.get(zone, {}))
        add_into(used, use.get(zone, {}))
    return allocation_score(strategy, weights, capacity=there, requested=used, request=request)


def shown_request(amounts: Mapping[str, int], *, own_cpus: int, ratio: float) -> Amounts:
    """What a pod takes of what a node shows: the CPUs that it owns count times the ratio."""
    return add(amounts, {CPU: amplify(1000 * own_cpus, ratio) - 1000 * own_cpus} if own_cpus > 0 else {})
