"""What pods hold of each zone of a node, and what is left.

Every pod counts, also one that was placed without regard to zones. CPUs of its own lie where they lie; what a record
names lies where it says; the rest is charged to the zones in proportion to what they have. What one pod is charged
depends on no other pod, so that books come out the same in whatever order pods are read.

A node may show more cpu than it has (a ratio above 1). Charges are kept without it, since ratios change; CPUs that pods
own count times the ratio.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Final, NamedTuple

from berth.contracts.names import CPU
from berth.resources.amounts import Amounts, add_into
from berth.rules.amplification import amplify
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import CpuLayout

ZoneAmounts = Mapping[int, Mapping[str, int]]
"""Amounts by zone."""

_NOTHING: Final[Amounts] = {}


class Held(NamedTuple):
    """What a pod has: all its amounts, its own CPUs, and by zone what its record says (empty: no record)."""

    amounts: Mapping[str, int]
    cpus: Set[int] = NO_CPUS
    zones: ZoneAmounts = {}


def cpus_by_zone(cpus: Set[int], layout: CpuLayout | None) -> dict[int, int]:
    """How many of these CPUs lie in each zone. Those that the layout does not have lie nowhere."""
    if layout is None or not cpus:
        return {}
    return dict(Counter(layout.cpus[cpu].zone for cpu in sorted(cpus) if cpu in layout.cpus))


def charge(held: Held, capacity: ZoneAmounts, layout: CpuLayout | None = None) -> dict[int, Amounts]:
    """What one pod holds of each zone, as far as zones report the resource. Zones without a share are absent.

    Args:
        held: the pod.
        capacity: what each zone has.
        layout: where the CPUs lie.
    """
    shares: dict[int, Amounts] = {}
    own = {zone: count for zone, count in cpus_by_zone(held.cpus, layout).items() if zone in capacity}
    for zone, count in own.items():
        shares.setdefault(zone, {})[CPU] = 1000 * count
    recorded = {zone: amounts for zone, amounts in held.zones.items() if zone in capacity}
    if recorded:
        for zone, amounts in recorded.items():
            share = shares.setdefault(zone, {})
            share.update({name: amount for name, amount in amounts.items() if amount and not (own and name == CPU)})
    else:
        for name, amount in held.amounts.items():
            if own and name == CPU:
                continue
            weights = {zone: amounts.get(name, 0) for zone, amounts in capacity.items()}
            if own and any(weights[zone] > 0 for zone in own):
                # Memory of CPUs' own zones comes first: the kernel gives it where the CPU is.
                weights = {zone: count if weights[zone] > 0 else 0 for zone, count in own.items()}
            for zone, part in in_proportion(amount, weights).items():
                shares.setdefault(zone, {})[name] = part
    return {zone: amounts for zone, amounts in sorted(shares.items()) if amounts}


def in_proportion(amount: int, weights: Mapping[int, int]) -> dict[int, int]:
    """Divide an amount by weights, without loss: what division leaves goes to the largest remainders, then to the
    lowest ids. Nothing where no weight is above 0."""
    positive = {zone: weight for zone, weight in sorted(weights.items()) if weight > 0}
    total = sum(positive.values())
    if total == 0 or amount <= 0:
        return {}
    parts = {zone: amount * weight // total for zone, weight in positive.items()}
    left = amount - sum(parts.values())
    by_remainder = sorted(positive, key=lambda zone: (-(amount * positive[zone] % total), zone))
    for zone in by_remainder[:left]:
        parts[zone] += 1
    return {zone: part for zone, part in parts.items() if part}


def total_charges(charges: Iterable[ZoneAmounts]) -> dict[int, Amounts]:
    """The sum of what pods are charged, by zone."""
    total: dict[int, Amounts] = {}
    for each in charges:
        for zone, amounts in each.items():
            add_into(total.setdefault(zone, {}), amounts)
    return total


def amplified_capacity(capacity: ZoneAmounts, ratio: float) -> dict[int, Amounts]:
    """What zones show: cpu times the ratio, rounded up."""
    return {
        zone: {name: amplify(amount, ratio) if name == CPU else amount for name, amount in amounts.items()}
        for zone, amounts in capacity.items()
    }


def zone_use(
    charged: ZoneAmounts,
    own_cpus: Mapping[int, int],
    *,
    ratio: float = 1.0,
    reusable: ZoneAmounts | None = None,
) -> dict[int, Amounts]:
    """What is in use of each zone, in the amounts that the node shows.

    Args:
        charged: the sum of charges, cpu without the ratio.
        own_cpus: how many different CPUs of the zone belong to pods as their own. They count times the ratio, also
            those that are charged to nobody.
        ratio: how much more cpu the node shows than it has; up to 1 none.
        reusable: what the pod gets back: its Reservation, pods that leave for it. Use does not fall below 0.
    """
    use: dict[int, Amounts] = {}
    for zone in sorted(charged.keys() | (own_cpus.keys() if ratio > 1 else set())):
        amounts = dict(charged.get(zone, _NOTHING))
        owned = 1000 * own_cpus.get(zone, 0)
        if ratio > 1 and owned:
            amounts[CPU] = max(0, amounts.get(CPU, 0) - owned) + amplify(owned, ratio)
        for name, amount in (reusable or {}).get(zone, _NOTHING).items():
            if name in amounts:
                amounts[name] = max(0, amounts[name] - amount)
        use[zone] = amounts
    return use


def zone_available(capacity: ZoneAmounts, use: ZoneAmounts) -> dict[int, Amounts]:
    """What is left of each zone, never below 0; both in the amounts that the node shows."""
    return {
        zone: {name: max(0, amount - use.get(zone, _NOTHING).get(name, 0)) for name, amount in amounts.items()}
        for zone, amounts in capacity.items()
    }
