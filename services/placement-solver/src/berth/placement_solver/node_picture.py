"""A node for people: what it has, by zone, core and device, who holds it, and what is in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.grants import DEVICE_KINDS, VF, device_of
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.ledger import Grant
from berth.contracts.question import Holding, NodeAnswer, NodeDevice, NodeFunction, NodePartition, NodePod, NodeZone
from berth.contracts.topology import NodeTopology
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.cores.make import make_of
from berth.placement_solver.core.devices.node_rules import NodeRules, node_rules
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.words import text_of
from berth.rules.cpus.cpuset import format_cpuset, read_cpuset
from berth.rules.devices.kubelet_counts import NUMBER
from berth.rules.devices.partitions import HONOR, PREFER
from berth.rules.records.resource_status import cpus_of, zones_of
from berth.transaction.claims import Claim

PODS_MAX: Final = 300
PROBLEMS_MAX: Final = 50
UNCOUNTED: Final = "is newer than what INVENTORY counts: nothing of it is given out until it is counted"


def picture(cluster: ClusterView, name: str) -> NodeAnswer:
    """What this solver knows of a node."""
    nodes = cluster.nodes
    row = nodes.rows.get(name)
    node = nodes.states[row] if row is not None else None
    if row is None or node is None:
        return NodeAnswer(name=name, outcome="unknown", message="no node of this name is known")
    inventory, topology, ground = nodes.inventories[row], nodes.topology(name), nodes.cores.ground(row)
    claims = [_left(cluster, claim) for claim in sorted(cluster.book.claims_on(name), key=lambda claim: claim.name)]
    pods = [*(_taking(cluster, claim) for claim in claims), *_nominated(cluster, name)]
    amounts = {
        resource: (int(nodes.allocatable[column, row]), int(nodes.free[column, row]))
        for resource, column in nodes.columns_on(row).items()
    }
    shown = {resource: pair for resource, pair in amounts.items() if any(pair)}
    rules = node_rules(node, inventory)
    make = make_of(node.labels, ground)
    kubelets = _by_kubelet(topology)
    return NodeAnswer(
        name=name,
        outcome="known",
        ready=node.ready,
        cordoned=node.unschedulable,
        taints=[f"{each.key}={each.value}:{each.effect}".replace("=:", ":") for each in node.taints],
        allocatable={resource: whole for resource, (whole, _) in shown.items()},
        free={resource: free for resource, (_, free) in shown.items()},
        devices=_devices(inventory, claims),
        zones=list(_zones(nodes, row, claims)),
        own_cpus=_own_cpus(claims, kubelets),
        kept_cpus=format_cpuset(ground.reserved.difference(*kubelets.values())),
        pods=pods[:PODS_MAX],
        pods_left_out=max(0, len(pods) - PODS_MAX),
        problems=[*_problems(nodes, row, claims), *_found_in(inventory), *_found_in(topology)][:PROBLEMS_MAX],
        numa_policy=make.policy,
        cpu_manager=ground.manager.policy,
        full_cores=ground.manager.full_cores_only,
        cpu_ratio=nodes.cores.ratio(row),
        partition_policy=_partition_policy(rules),
        partitions=list(_partitions(rules)),
    )


def _left(cluster: ClusterView, claim: Claim) -> Claim:
    """A Reservation holds what its users have not taken out of it."""
    held = cluster.capacity.reserved.get(claim.uid) if claim.is_reservation else None
    return claim if held is None else held.remainder._replace(unreadable=claim.unreadable)


def _problems(nodes: Nodes, row: int, claims: Iterable[Claim]) -> Iterator[Problem]:
    if nodes.uncounted[row]:
        yield Problem(field="Device", message=UNCOUNTED)
    if nodes.cores.uncounted[row]:
        yield Problem(field="NodeResourceTopology", message=UNCOUNTED)
    for claim in claims:
        for kind in claim.unreadable:
            if kind == NUMBER:
                if nodes.counts.picks(row):
                    continue  # kubelet has picked them
                kind = "GPUs"
            message = f"no record that can be read says which {kind} it holds, so none are given out on this node"
            yield Problem(field=text_of(claim.name), message=message)


def _found_in(counted: NodeInventory | NodeTopology | None) -> Sequence[Problem]:
    return counted.problems if counted is not None else ()


# --- holders ---------------------------------------------------------------------------------------------------------


def _taking(cluster: ClusterView, claim: Claim) -> NodePod:
    used = cluster.capacity.reserved.get(claim.reservation) if claim.reservation else None
    return NodePod(
        holder=text_of(claim.name),
        state="bound" if claim.is_bound else "decided",
        message=f"out of {text_of(used.claim.name)}" if used is not None else "",
        amounts=dict(claim.amounts),
        grants=list(claim.grants),
        cpus=format_cpuset(cpus_of(claim.grants)),
        zones=sorted(zones_of(claim.grants)),
    )


def _nominated(cluster: ClusterView, node: str) -> Iterator[NodePod]:
    for nomination in sorted(cluster.book.nominations.on(node), key=lambda each: each.name):
        leaving = [text_of((each.namespace, each.name)) for each in cluster.book.remaining_victims(nomination)]
        yield NodePod(
            holder=text_of(nomination.name),
            state="nominated",
            message=f"waits for {', '.join(leaving)} to leave" if leaving else "its victims have left",
            amounts=dict(nomination.claim.amounts),
            grants=list(nomination.claim.grants),
        )


# --- devices ---------------------------------------------------------------------------------------------------------


def _devices(inventory: NodeInventory | None, claims: Iterable[Claim]) -> list[NodeDevice]:
    """Those that are reported, and those that are held all the same."""
    slots = {(each.kind, each.minor): each for each in (inventory.devices if inventory is not None else ())}
    holdings: dict[tuple[str, int], list[Holding]] = {}
    functions: dict[tuple[str, int], dict[str, str]] = {}
    for claim in claims:
        holder = text_of(claim.name)
        for grant in claim.grants:
            if _is_device(grant):
                holding = Holding(holder=holder, amounts=dict(grant.amounts), extension=grant.extension)
                holdings.setdefault((grant.kind, grant.minor), []).append(holding)
            elif grant.kind == VF:
                functions.setdefault(device_of(grant), {})[grant.id] = holder
    return [
        _device(place, slots.get(place), holdings.get(place, []), functions.get(place, {}))
        for place in sorted({*slots, *holdings, *functions})
    ]


def _device(
    place: tuple[str, int], slot: DeviceSlot | None, holdings: list[Holding], functions: dict[str, str]
) -> NodeDevice:
    listed = [each.bus for each in slot.functions] if slot is not None else []
    found = [NodeFunction(bus=bus, holder=functions.get(bus, "")) for bus in listed]
    found += [
        NodeFunction(bus=bus, holder=holder, reported=False) for bus, holder in functions.items() if bus not in listed
    ]
    kind, minor = place
    if slot is None:
        return NodeDevice(kind=kind, minor=minor, reported=False, healthy=False, holdings=holdings, functions=found)
    return NodeDevice(
        kind=kind,
        minor=minor,
        healthy=slot.healthy,
        reason=slot.reason,
        uuid=slot.uuid,
        numa_node=slot.numa_node,
        pcie=slot.pcie,
        amounts=dict(slot.amounts),
        holdings=holdings,
        functions=found,
    )


def _is_device(grant: Grant) -> bool:
    return grant.kind in DEVICE_KINDS and grant.minor >= 0


def _partition_policy(rules: NodeRules) -> str:
    if not rules.partitions.table and not rules.partitions.honors:
        return ""
    return HONOR if rules.partitions.honors else PREFER


def _partitions(rules: NodeRules) -> Iterator[NodePartition]:
    for size in sorted(rules.partitions.table or {}):
        for each in (rules.partitions.table or {})[size]:
            yield NodePartition(minors=list(each.minors), score=each.score, bandwidth=each.bandwidth, link=each.link)


# --- NUMA nodes and cores --------------------------------------------------------------------------------------------


def _zones(nodes: Nodes, row: int, claims: Sequence[Claim]) -> Iterator[NodeZone]:
    node, layout = nodes.cores.zones(row), nodes.cores.ground(row).layout
    for zone in sorted({*node.zones, *(layout.zones if layout is not None else ())}):
        given = [(claim, zones_of(claim.grants)) for claim in claims]
        yield NodeZone(
            id=zone,
            amounts=dict(node.capacity.get(zone, {})),
            free={name: max(0, amount) for name, amount in node.available.get(zone, {}).items()},
            holdings=[
                Holding(holder=text_of(claim.name), amounts=share[zone]) for claim, share in given if zone in share
            ],
            cores=[list(core.cpus) for core in layout.zones.get(zone, ())] if layout is not None else [],
        )


def _own_cpus(claims: Iterable[Claim], kubelets: dict[str, frozenset[int]]) -> dict[str, str]:
    own = {text_of(claim.name): cpus for claim in claims if (cpus := cpus_of(claim.grants))}
    for holder, cpus in kubelets.items():
        own[holder] = own.get(holder, frozenset()) | cpus
    return {holder: format_cpuset(cpus) for holder, cpus in own.items()}


def _by_kubelet(topology: NodeTopology | None) -> dict[str, frozenset[int]]:
    """The CPUs that kubelet gave to pods, by pod."""
    found: dict[str, frozenset[int]] = {}
    for each in topology.pinned if topology is not None else ():
        holder = f"{each.namespace}/{each.name}" if each.name else f"pod {each.uid}"
        cpus = read_cpuset(each.cpus, "pinned")
        if isinstance(cpus, frozenset):
            found[holder] = found.get(holder, frozenset()) | cpus
    return found
