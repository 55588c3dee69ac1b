"""Mid: what prod pods have asked for and are predicted not to need, and a share of what nobody has asked for."""

from __future__ import annotations

from typing import Final

from berth.contracts.names import CPU, MEMORY, MID_CPU, MID_MEMORY
from berth.rules.cpus.qos import MID
from berth.rules.node_strategies.colocation import STATIC, Colocation
from berth.slo_manager.core.offers.facts import HOSTED_FOR_MID, RESOURCES, Facts
from berth.slo_manager.core.offers.rules import V1_8, Rules
from berth.slo_manager.core.offers.sums import Sum, share

OFFERED: Final = {CPU: MID_CPU, MEMORY: MID_MEMORY}


def mid_offer(facts: Facts, strategy: Colocation, rules: Rules) -> dict[str, Sum]:
    """What the node lends to mid pods, by resource."""
    caps = {CPU: strategy.mid_cpu_threshold_percent, MEMORY: strategy.mid_memory_threshold_percent}
    static = {
        CPU: strategy.mid_static_cpu_reserved_percent,
        MEMORY: strategy.mid_static_memory_reserved_percent,
    }
    if strategy.mid_reclaim_mode == STATIC:
        return {
            OFFERED[name]: Sum({"static": share(whole, static[name])}).at_most("threshold", share(whole, caps[name]))
            for name, whole in ((name, facts.capacity.get(name, 0)) for name in RESOURCES)
        }
    return {
        OFFERED[name]: _offer(facts, name, caps[name], strategy.mid_unallocated_percent, rules) for name in RESOURCES
    }


def _offer(facts: Facts, name: str, cap_percent: int, unallocated_percent: int, rules: Rules) -> Sum:
    capacity = facts.capacity.get(name, 0)
    usage = facts.node_usage or {}
    is_measured = all(each in usage for each in RESOURCES)
    unused = max(capacity - usage[name], 0) if is_measured else 0
    reclaimable = (facts.prod_reclaimable or {}).get(name, 0)
    reserved = max(facts.system_used(name, *HOSTED_FOR_MID), facts.reserved(name))
    requested = sum(each.holder.requests.get(name, 0) for each in facts.pods if each.holder.priority_class != MID)
    unallocated = max(capacity - reserved - requested, 0)
    cap = share(capacity, cap_percent)
    inputs = {
        "prodReclaimable": reclaimable,
        "unused": unused,
        "reserved": reserved,
        "requested": requested,
        "unallocated": unallocated,
    }
    lent = Sum({"reclaimable": max(min(reclaimable, unused), 0)}, inputs)
    part = share(unallocated, unallocated_percent)
    if rules.mid_formula == V1_8:
        return lent.plus("unallocated", part).at_most("threshold", cap)
    return lent.at_most("threshold", cap).plus("unallocated", part)
