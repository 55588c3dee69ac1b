"""Batch: what pods of higher priority and the system do not use now, less a margin that is never lent."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY
from berth.rules.node_strategies.colocation import MAX_USAGE_REQUEST, REQUEST, Colocation
from berth.slo_manager.core.offers.facts import HOSTED_FOR_BATCH, LOW, Facts, Measured
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.core.offers.sums import Sum, share

OFFERED = {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY}


def batch_offer(facts: Facts, strategy: Colocation, rules: Rules) -> dict[str, Sum]:
    """What the node lends to batch work, by resource."""
    return {
        BATCH_CPU: _offer(
            facts,
            CPU,
            strategy.cpu_calculate_policy,
            strategy.cpu_reclaim_threshold_percent,
            strategy.batch_cpu_threshold_percent,
            rules,
        ),
        BATCH_MEMORY: _offer(
            facts,
            MEMORY,
            strategy.memory_calculate_policy,
            strategy.memory_reclaim_threshold_percent,
            strategy.batch_memory_threshold_percent,
            rules,
        ),
    }


def _offer(facts: Facts, name: str, policy: str, threshold: int, cap: int | None, rules: Rules) -> Sum:
    capacity, reserved = facts.capacity.get(name, 0), facts.reserved(name)
    system = facts.system_used(name, *HOSTED_FOR_BATCH)
    kept = reserved if policy == REQUEST else max(system, reserved)
    pods = sum(charged(each, name, policy, rules) for each in facts.pods)
    gone = 0 if policy == REQUEST else gone_usage(facts, name)
    found = Sum(
        {"capacity": capacity, "margin": -share(capacity, 100 - threshold), "system": -kept, "pods": -pods},
        {"systemUsed": system, "reserved": reserved},
    )
    found = found.plus("endedPods", -gone).at_least_zero()
    return found if cap is None else found.at_most("threshold", share(capacity, cap))


def charged(pod: Measured, name: str, policy: str, rules: Rules) -> int:
    """What a pod takes of what can be lent.

    One that nobody has measured may use what it asks for. The reference forgets it where the larger of usage and
    request counts (`Rules.forgets_unmeasured`).
    """
    request = pod.holder.requests.get(name, 0)
    if pod.usage is None:
        return 0 if policy == MAX_USAGE_REQUEST and rules.forgets_unmeasured else request
    if policy == REQUEST or (policy != MAX_USAGE_REQUEST and pod.holder.is_exclusive and name == CPU):
        return request
    usage = pod.usage.get(name, 0)
    return max(usage, request) if policy == MAX_USAGE_REQUEST else usage


def gone_usage(facts: Facts, name: str) -> int:
    """What pods still use that are no longer there."""
    return sum(each.usage.get(name, 0) for each in facts.gone if each.priority_class not in LOW)


def zone_policies(strategy: Colocation) -> Mapping[str, tuple[str, int]]:
    """Policy and threshold by physical resource."""
    return {
        CPU: (strategy.cpu_calculate_policy, strategy.cpu_reclaim_threshold_percent),
        MEMORY: (strategy.memory_calculate_policy, strategy.memory_reclaim_threshold_percent),
    }
