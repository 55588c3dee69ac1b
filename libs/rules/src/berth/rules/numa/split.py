"""How much of each chosen zone a pod gets, and which CPUs.

Each resource by itself: from the zone that has least, in equal parts of what is still to be had, as far as the zone has
it. A pod with CPUs of its own gets whole ones, and whole cores where its policy must hold. A split that cannot be is
said without choosing a single CPU: what a zone offers such a pod is counted from the CPUs that its policy can use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from berth.contracts.names import CPU
from berth.resources.amounts import Amounts
from berth.rules.amplification import amplify
from berth.rules.cpus.available import FULL_PCPUS, usable_cpus
from berth.rules.cpus.bind_policy import NO_LAYOUT
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import CpuLayout
from berth.rules.cpus.resource_status import ZoneShare
from berth.rules.cpus.take import NOT_ENOUGH, take_cpus
from berth.rules.numa.charges import ZoneAmounts, zone_available
from berth.rules.numa.zone_sets import ZoneSet


@dataclass(frozen=True)
class NodeZones:
    """The zones of a node as they stand.

    Attributes:
        capacity: what each has, in the amounts that the node shows (`amplified_capacity`).
        use: what is in use of each (`zone_use`).
        ratio: how much more cpu the node shows than it has; up to 1 none.
        layout: its CPUs; None where they are not known: no pod gets CPUs of its own there.
        free_cpus: those that may be given to this pod (`available_cpus`).
    """

    capacity: ZoneAmounts
    use: ZoneAmounts = field(default_factory=dict)
    ratio: float = 1.0
    layout: CpuLayout | None = None
    free_cpus: frozenset[int] = NO_CPUS

    @cached_property
    def zones(self) -> ZoneSet:
        """All of them."""
        return tuple(sorted(self.capacity))

    @cached_property
    def available(self) -> Mapping[int, Amounts]:
        """What is left of each, in the amounts that the node shows."""
        return zone_available(self.capacity, self.use)


def limited(node: NodeZones, left: ZoneAmounts, names: Set[str]) -> NodeZones:
    """The zones with no more of these resources free than is left there of a Reservation, without the ratio."""
    use: dict[int, Amounts] = {}
    for zone, amounts in node.available.items():
        use[zone] = dict(node.use.get(zone, {}))
        for name in names & amounts.keys():
            mine = left.get(zone, {}).get(name, 0)
            most = amplify(mine, node.ratio) if name == CPU else mine
            use[zone][name] = node.capacity[zone][name] - min(amounts[name], most)
    return replace(node, use=use)


@dataclass(frozen=True, slots=True)
class ZoneRequest:
    """What a pod asks of zones.

    Attributes:
        amounts: what it asks for. Resources that no zone reports are not looked at.
        own_cpus: how many CPUs of its own; 0: it shares. Its cpu in zones is these, without overhead.
        bind: the bind policy of its CPUs.
        required: whether that policy must hold.
        exclusive: the exclusive policy of its CPUs.
        rivals: CPUs of pods with the same exclusive policy.
        preferred: free CPUs to use up first: what a Reservation of the pod holds.
        strategy: which zones, sockets and cores go first.
        references: how many hold each CPU already, where pods may share CPUs.
    """

    amounts: Mapping[str, int]
    own_cpus: int = 0
    bind: str = ""
    required: bool = False
    exclusive: str = ""
    rivals: frozenset[int] = NO_CPUS
    preferred: frozenset[int] = NO_CPUS
    strategy: str = ""
    references: Mapping[int, int] = field(default_factory=dict)


class Need(NamedTuple):
    """One resource: how much the pod needs, and what each zone offers it, in the pod's own amounts.

    Parts are multiples of `step`; where `sums` says so, only those amounts of a zone that its bits say, in steps.
    """

    name: str
    amount: int
    offered: Mapping[int, int]
    step: int = 1
    sums: Mapping[int, int] | None = None


class Allocation(NamedTuple):
    """What a pod gets, zones ascending, zones without a share absent; or the `reasons` why it gets nothing."""

    zones: tuple[ZoneShare, ...] = ()
    cpus: frozenset[int] = NO_CPUS
    reasons: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether nothing is missing."""
        return not self.reasons


def zone_needs(node: NodeZones, request: ZoneRequest) -> list[Need]:
    """The resources that the pod asks for and some zone reports, by name."""
    needs = []
    for name in sorted(request.amounts):
        amount = 1000 * request.own_cpus if name == CPU and request.own_cpus > 0 else request.amounts[name]
        if amount <= 0 or not any(name in amounts for amounts in node.capacity.values()):
            continue
        if name == CPU and request.own_cpus > 0:
            needs.append(_own_cpus(node, request))
        else:
            needs.append(Need(name, amount, {zone: left.get(name, 0) for zone, left in node.available.items()}))
    return needs


def split(need: Need, zones: Sequence[int]) -> dict[int, int] | None:
    """How much of each of these zones the pod gets, 0 for some, with the sum that it needs; None where they have not
    enough. Of zones that have the same the lowest comes first."""
    order = sorted(zones, key=lambda zone: (need.offered.get(zone, 0), zone))
    parts = _in_sums(need, order) if need.sums is not None else _in_steps(need, order)
    return parts if parts is not None and sum(parts.values()) == need.amount else None


def can_split(need: Need, zones: Sequence[int]) -> bool:
    """Whether `split` would find something."""
    if sum(need.offered.get(zone, 0) for zone in zones) < need.amount:
        return False
    return need.amount % need.step == 0 if need.sums is None else split(need, zones) is not None


def missing(name: str) -> str:
    """The reason for a pod that lacks a resource on the zones it may use."""
    return f"Insufficient NUMA {name}"


def allocate(node: NodeZones, request: ZoneRequest, zones: Sequence[int]) -> Allocation:
    """What the pod gets of these zones: amounts without the ratio, and its CPUs, as many of a zone as its cpu there."""
    if request.own_cpus > 0 and node.layout is None:
        return Allocation(reasons=(NO_LAYOUT,))
    shares: dict[int, Amounts] = {}
    lacking = []
    needs = zone_needs(node, request)
    for need in needs:
        parts = split(need, zones)
        if parts is None:
            lacking.append(missing(need.name))
            continue
        for zone, part in parts.items():
            if part:
                shares.setdefault(zone, {})[need.name] = part
    if lacking:
        return Allocation(reasons=tuple(lacking))
    cpus = NO_CPUS
    if request.own_cpus > 0 and node.layout is not None:
        if not any(need.name == CPU for need in needs):
            return Allocation(reasons=(missing(CPU),))
        for zone, share in sorted(shares.items()):
            taken = take_cpus(
                node.layout,
                node.free_cpus & node.layout.zone_cpus.get(zone, NO_CPUS),
                share.get(CPU, 0) // 1000,
                bind=request.bind,
                required=request.required,
                strategy=request.strategy,
                exclusive=request.exclusive,
                rivals=request.rivals,
                preferred=request.preferred,
                references=request.references,
            )
            if taken.reason:
                return Allocation(reasons=(taken.reason,))
            cpus |= taken.cpus
        if len(cpus) != request.own_cpus:
            return Allocation(reasons=(NOT_ENOUGH,))
    return Allocation(tuple(ZoneShare(zone, share) for zone, share in sorted(shares.items())), cpus)


def _own_cpus(node: NodeZones, request: ZoneRequest) -> Need:
    """Offered are whole CPUs: those of the zone that the policy can use, as far as the zone has cpu left for them."""
    amount = 1000 * request.own_cpus
    layout = node.layout
    if layout is None:
        return Need(CPU, amount, {})
    must = request.bind if request.required else ""
    usable = usable_cpus(layout, node.free_cpus, must)
    limits = {
        zone: min(_whole_cpus(left.get(CPU, 0), node.ratio), len(usable & layout.zone_cpus.get(zone, NO_CPUS)))
        for zone, left in node.available.items()
    }
    if must != FULL_PCPUS:
        return Need(CPU, amount, {zone: 1000 * limit for zone, limit in limits.items()}, 1000)
    if layout.even:
        threads = max(1, layout.threads)
        return Need(
            CPU, amount, {zone: 1000 * (limit - limit % threads) for zone, limit in limits.items()}, 1000 * threads
        )
    sums = {}
    for zone, limit in limits.items():
        reached = 1
        for core in layout.zones.get(zone, ()):
            if core.members <= usable:
                reached |= reached << len(core.cpus)
        sums[zone] = reached & ((2 << limit) - 1)
    offered = {zone: 1000 * (reached.bit_length() - 1) for zone, reached in sums.items()}
    return Need(CPU, amount, offered, 1000, sums)


def _whole_cpus(shown_milli: int, ratio: float) -> int:
    """How many CPUs of its own a pod may take of cpu that is left: each counts times the ratio."""
    count = shown_milli // 1000 if ratio <= 1 else int(shown_milli / (1000 * ratio)) + 1
    while count > 0 and amplify(1000 * count, ratio) > shown_milli:
        count -= 1
    return count


def _in_steps(need: Need, order: Sequence[int]) -> dict[int, int] | None:
    left = need.amount
    parts = {}
    for place, zone in enumerate(order):
        target = left // (len(order) - place)
        part = min(target, need.offered.get(zone, 0))
        parts[zone] = part - part % need.step
        left -= parts[zone]
    return parts if left == 0 else None


def _in_sums(need: Need, order: Sequence[int]) -> dict[int, int] | None:
    """The same where not every amount can be made of a zone: the largest part up to the target that leaves the later
    zones something they can make, else the smallest above it."""
    count = need.amount // need.step
    full = (2 << count) - 1
    sums = need.sums or {}
    # Bit n of `later[i]`: the zones from the i-th on can make n together.
    later = [1]
    for zone in reversed(order):
        reached = 0
        bits = sums.get(zone, 1)
        for part in _set_bits(bits):
            reached |= later[-1] << part
        later.append(reached & full)
    later.reverse()
    if not later[0] >> count & 1:
        return None
    parts = {}
    left = count
    for place, zone in enumerate(order):
        target = left // (len(order) - place)
        fitting = [
            part for part in _set_bits(sums.get(zone, 1)) if part <= left and later[place + 1] >> (left - part) & 1
        ]
        below = [part for part in fitting if part <= target]
        part = max(below) if below else min(fitting)
        parts[zone] = part * need.step
        left -= part
    return parts


def _set_bits(bits: int) -> list[int]:
    return [place for place in range(bits.bit_length()) if bits >> place & 1]
