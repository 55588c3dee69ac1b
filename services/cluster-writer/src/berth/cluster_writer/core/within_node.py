"""Laws of what lies within a node, looked at once more before a bind: is what is granted still there to be given?

CPUs are there and kept for nobody; of a NUMA node, and of what a device has beside percents, no more is given than
there is; a chip is cut into sizes or given otherwise; a PCIe root that is a pod's own is; whole cards are a partition.
The verifier of the solver asks more, and by what was counted for it; this goes by the objects that STATE shows, so that
neither an inventory that is late nor a fault in it gets a pod bound. What the verifier lets pass by the same objects
passes here, or the two would decide and withdraw in turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.grants import CPU, DEVICE_KINDS, OWN_ROOT, ZONE, granted
from berth.contracts.ledger import Decision, Grant
from berth.contracts.state import Device, Node, PodTemplate
from berth.contracts.topology import NodeTopology
from berth.rules.amplification import amplify, read_ratios
from berth.rules.devices.partition_spec import PartitionSpec, read_partition_spec
from berth.rules.devices.partitions import partition_rules
from berth.rules.records.evidence import called, whole
from berth.transaction.claims import Claim

GPU: Final = "gpu"
LENT: Final = frozenset(names.LENT)
CORE_KINDS: Final = frozenset({CPU, ZONE})
NOWHERE: Final = NodeTopology(node="", version=0)
Share = tuple[int, str]
"""NUMA node and resource."""
Thing = tuple[str, str]
"""Kind and id of a grant."""


class Place(NamedTuple):
    """A node, with its Device and what its NodeResourceTopology comes to, if it has them."""

    node: Node
    device: Device | None = None
    topology: NodeTopology | None = None


def asks_cores(decision: Decision) -> bool:
    """Whether it grants something that the topology of its node tells of."""
    return any(grant.kind in CORE_KINDS for grant in granted(decision.allocation))


def broken_law(mine: Claim, others: Sequence[Claim], template: PodTemplate, place: Place) -> str:
    """The first law that a claim breaks beside those of the others on its node; empty: none."""
    return next(_problems(mine, others, template, place), "") if mine.grants else ""


def _problems(mine: Claim, others: Sequence[Claim], template: PodTemplate, place: Place) -> Iterator[str]:
    kinds = {grant.kind for grant in mine.grants}
    if kinds & CORE_KINDS:
        topology = place.topology or NOWHERE
        yield from _kept_cpus(mine, topology)
        yield from _over_zones(mine, others, place.node, topology)
    if kinds & DEVICE_KINDS:
        if not mine.is_reservation:
            pods = [claim for claim in others if not claim.is_reservation]
            yield from _over_devices(mine, pods, place.device)
            yield from _cut_otherwise(mine, pods)
            yield from _shared_roots(mine, pods, place.device)
        yield from _no_partition(mine, template, place)


def _kept_cpus(mine: Claim, topology: NodeTopology) -> Iterator[str]:
    there = {cpu for core in topology.cores for cpu in core.cpus}
    for grant in mine.grants:
        if grant.kind == CPU and grant.minor not in there:
            yield f"{called(grant)} on {mine.node} is not there any more"
        elif grant.kind == CPU and grant.minor in topology.reserved:
            yield f"{called(grant)} on {mine.node} is kept for others"


def _over_zones(mine: Claim, others: Sequence[Claim], node: Node, topology: NodeTopology) -> Iterator[str]:
    """Who was given nothing of a NUMA node in particular counts for nothing. What is lent was judged when it was given
    out: it may be less by now."""
    given = ((grant.minor, grant.amounts.keys() - LENT) for grant in mine.grants if grant.kind == ZONE)
    wanted = {(zone, name) for zone, resources in given for name in resources}
    if not wanted:
        return
    zone_of = {cpu: core.zone for core in topology.cores for cpu in core.cpus}
    shares = {claim.uid: _shares(claim.grants, zone_of) for claim in (*others, mine)}
    capacity = {each.zone: each.amounts for each in topology.zones}
    for zone, name in sorted(wanted):
        total = 0
        for claim in (*others, mine):
            share = shares[claim.uid].get((zone, name), 0)
            if claim.is_reservation:
                users = (user for user in (*others, mine) if user.reservation == claim.uid)
                share = max(0, share - sum(shares[user.uid].get((zone, name), 0) for user in users))
            total += share
        most = amplify(capacity.get(zone, {}).get(name, 0), _ratio(node, topology) if name == names.CPU else 1.0)
        if total > most and shares[mine.uid].get((zone, name), 0) > 0:
            yield f"{name} of NUMA node {zone} on {mine.node}: {total} claimed of {most}"


def _shares(grants: Sequence[Grant], zone_of: Mapping[int, int]) -> Mapping[Share, int]:
    """What is given of NUMA nodes; the cpu of who has CPUs of his own is theirs."""
    own = Counter(zone_of[grant.minor] for grant in grants if grant.kind == CPU and grant.minor in zone_of)
    found: dict[Share, int] = {(zone, names.CPU): 1000 * count for zone, count in own.items()}
    for grant in grants:
        if grant.kind == ZONE:
            for name, amount in grant.amounts.items():
                if not (own and name == names.CPU):
                    found[grant.minor, name] = found.get((grant.minor, name), 0) + amount
    return found


def _ratio(node: Node, topology: NodeTopology) -> float:
    ratios = read_ratios(node.annotations)
    said = ratios.get(names.CPU, 1.0) if isinstance(ratios, dict) else 1.0
    return max(1.0, topology.cpu_ratio or said)


def _over_devices(mine: Claim, pods: Sequence[Claim], device: Device | None) -> Iterator[str]:
    """Amounts that each device reports for itself, such as bytes of memory and parts of a chip. One that it does not
    report is governed by its percents."""
    offered = {(each.kind, str(each.minor)): each.amounts for each in (device.devices if device is not None else ())}
    for thing, grant in {(each.kind, each.id): each for each in mine.grants if each.kind in DEVICE_KINDS}.items():
        for name in sorted(grant.amounts):
            most = offered.get(thing, {}).get(name, 0)
            if most <= 0 or whole(grant.kind, name) is not None:
                continue
            total = sum(_taken(claim, thing, name) for claim in (*pods, mine))
            if grant.amounts[name] > 0 and total > most:
                yield f"{name} of {called(grant)} on {mine.node}: {total} claimed of {most}"


def _taken(claim: Claim, thing: Thing, name: str) -> int:
    return sum(each.amounts.get(name, 0) for each in claim.grants if (each.kind, each.id) == thing)


def _cut_otherwise(mine: Claim, pods: Sequence[Claim]) -> Iterator[str]:
    for grant in mine.grants:
        for other in pods if grant.kind == GPU else ():
            if any(_is_cut(each) != _is_cut(grant) for each in other.grants if (each.kind, each.id) == (GPU, grant.id)):
                holder = "/".join(other.name)
                yield f"{called(grant)} on {mine.node} is cut into virtual NPUs and given out otherwise, to {holder}"


def _is_cut(grant: Grant) -> bool:
    return grant.amounts.get(names.NPU_CORE, 0) > 0


def _shared_roots(mine: Claim, pods: Sequence[Claim], device: Device | None) -> Iterator[str]:
    if not any(grant.extension == OWN_ROOT for claim in (*pods, mine) for grant in claim.grants):
        return
    roots = {
        (each.kind, str(each.minor)): each.topology.pcie if each.topology is not None else ""
        for each in (device.devices if device is not None else ())
    }
    for grant in mine.grants:
        if grant.kind not in DEVICE_KINDS:
            continue
        root = roots.get((grant.kind, grant.id), "")
        if grant.extension == OWN_ROOT and not root:
            yield f"nobody knows the PCIe root of {called(grant)} on {mine.node}, which is to be one pod's own"
        for other in pods:
            for each in other.grants:
                if each.kind == grant.kind and OWN_ROOT in (grant.extension, each.extension):
                    beside = roots.get((each.kind, each.id), "")
                    if root == beside or not (root and beside):
                        holder = "/".join(other.name)
                        yield f"the PCIe root of {called(grant)} on {mine.node} is one pod's own, beside {holder}"


def _no_partition(mine: Claim, template: PodTemplate, place: Place) -> Iterator[str]:
    """Whole cards where the node gives out no others, or where they are asked for as one."""
    cards = [grant for grant in mine.grants if grant.kind == GPU]
    if not cards or any(grant.amounts.get(names.GPU_MEMORY_RATIO, 0) < 100 for grant in cards):
        return
    labels, notes = (place.device.labels, place.device.annotations) if place.device is not None else ({}, {})
    rules = partition_rules(place.node.labels, labels, notes)
    if not rules.honors and not isinstance(read_partition_spec(template.annotations), PartitionSpec):
        return
    minors = frozenset(grant.minor for grant in cards)
    if not any(minors == frozenset(each.minors) for each in (rules.table or {}).get(len(minors), ())):
        yield f"gpu minors {', '.join(map(str, sorted(minors)))} on {mine.node} are no partition of the node any more"
