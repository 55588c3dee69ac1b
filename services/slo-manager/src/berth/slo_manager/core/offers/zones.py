"""Batch by NUMA node: the same sum for each, with what belongs to no zone divided over all of them.

What is divided is rounded up to a thousandth of its unit, of bytes as well, so that no zone lends what another needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from berth.contracts.names import CPU
from berth.rules.cpus.zone_reservation import zone_part
from berth.rules.node_strategies.colocation import REQUEST, Colocation
from berth.slo_manager.core.offers.batch import OFFERED, charged, gone_usage, zone_policies
from berth.slo_manager.core.offers.facts import HOSTED_FOR_BATCH, Facts
from berth.slo_manager.core.offers.rules import DEFAULT
from berth.slo_manager.core.offers.sums import share

_SCALE: Final = {CPU: 1}
"""Thousandths in an amount: cpu is counted in them."""
_BYTES: Final = 1000


def zone_offers(facts: Facts, strategy: Colocation) -> dict[int, dict[str, int]]:
    """What each zone lends to batch work. A pod that nobody has measured counts with its request."""
    if not facts.zones:
        return {}
    zones = sorted(facts.zones)
    found: dict[int, dict[str, int]] = {zone: {} for zone in zones}
    for name, (policy, threshold) in zone_policies(strategy).items():
        scale = _SCALE.get(name, _BYTES)
        reserved, system = facts.reserved(name), facts.system_used(name, *HOSTED_FOR_BATCH)
        shared = reserved if policy == REQUEST else max(system, reserved)
        if policy != REQUEST:
            shared += gone_usage(facts, name)
        used = [zone_part(scale * shared, len(zones))] * len(zones)
        for pod in facts.pods:
            parts = split(scale * charged(pod, name, policy, DEFAULT), pod.holder.zones, zones)
            used = [before + part for before, part in zip(used, parts, strict=True)]
        for zone, taken in zip(zones, used, strict=True):
            whole = facts.zones[zone].get(name, 0)
            left = scale * (whole - share(whole, 100 - threshold)) - taken
            found[zone][OFFERED[name]] = max(0, left // scale)
    return found


def split(amount_milli: int, given: Iterable[int], zones: Sequence[int]) -> list[int]:
    """The parts of an amount by zone: equal ones of those that were given and are there, else of all."""
    held = set(given) & set(zones) or set(zones)
    part = zone_part(amount_milli, len(held))
    return [part if zone in held else 0 for zone in zones]
