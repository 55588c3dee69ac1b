"""A node for people: what it has, by zone, core and device, who holds it, and what is in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from berth.contracts.base import Problem
from berth.contracts.grants import DEVICE_KINDS
from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Grant
from berth.contracts.question import Holding, NodeAnswer, NodeDevice, NodePod, NodeZone
from berth.contracts.state import NodeResourceTopology, Pod
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.reported_topology import ReportedTopology, reported_topology
from berth.placement_solver.why_others import text_of
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.resource_status import NOTHING, ResourceStatus, read_resource_status
from berth.transaction.claims import Claim

PODS_MAX: Final = 300
PROBLEMS_MAX: Final = 50
Given: TypeAlias = Sequence[tuple[Claim, ResourceStatus]]
"""The holders of a node, each with the CPUs and NUMA nodes that its record names."""


def picture(cluster: ClusterView, name: str, topology: NodeResourceTopology | None) -> NodeAnswer:
    """What this solver knows of a node.

    Args:
        cluster: what the solver sees.
        name: of the node.
        topology: what STATE has of its NUMA nodes and cores; None: nothing.
    """
    row = cluster.nodes.rows.get(name)
    node = cluster.nodes.states[row] if row is not None else None
    if row is None or node is None:
        return NodeAnswer(name=name, outcome="unknown", message="no node of this name is known")
    inventory = cluster.nodes.inventories[row]
    reported = reported_topology(topology)
    claims = sorted(cluster.book.claims_on(name), key=lambda claim: claim.name)
    problems = [*(inventory.problems if inventory is not None else ()), *reported.problems]
    given = [(claim, _given(cluster, claim, problems)) for claim in claims]
    pods = [*(_taking(claim, status) for claim, status in given), *_nominated(cluster, name)]
    columns = cluster.nodes.columns
    amounts = {
        resource: (int(cluster.nodes.allocatable[column, row]), int(cluster.nodes.free[column, row]))
        for resource, column in columns.items()
    }
    shown = {resource: pair for resource, pair in amounts.items() if any(pair)}
    return NodeAnswer(
        name=name,
        outcome="known",
        ready=node.ready,
        cordoned=node.unschedulable,
        taints=[f"{each.key}={each.value}:{each.effect}".replace("=:", ":") for each in node.taints],
        allocatable={resource: whole for resource, (whole, _) in shown.items()},
        free={resource: free for resource, (_, free) in shown.items()},
        devices=_devices(inventory, claims),
        zones=list(_zones(reported, given)),
        own_cpus=_own_cpus(reported, given),
        kept_cpus=format_cpuset(reported.kept - _by_kubelet(reported)),
        pods=pods[:PODS_MAX],
        pods_left_out=max(0, len(pods) - PODS_MAX),
        problems=problems[:PROBLEMS_MAX],
    )


def _given(cluster: ClusterView, claim: Claim, problems: list[Problem]) -> ResourceStatus:
    """The CPUs and NUMA nodes of a holder, by its record: that of the object, or the one that its bind will write."""
    seen = cluster.book.seen(claim.name)
    decision = None if claim.is_bound else cluster.book.open_decision(claim.name)
    if decision is not None:
        annotations = decision.annotations
    elif isinstance(seen, Pod):
        annotations = seen.template.annotations
    else:
        annotations = {}
    status = read_resource_status(annotations)
    if isinstance(status, Problem):
        problems.append(Problem(field=f"{text_of(claim.name)} {status.field}", message=status.message))
        return NOTHING
    unknown = [f"no record says which {kind} it holds" for kind in claim.unreadable]
    problems += [Problem(field=text_of(claim.name), message=message) for message in unknown]
    return status


def _taking(claim: Claim, status: ResourceStatus) -> NodePod:
    return NodePod(
        holder=text_of(claim.name),
        state="bound" if claim.is_bound else "decided",
        amounts=dict(claim.amounts),
        grants=list(claim.grants),
        cpus=format_cpuset(status.cpus),
        zones=[share.zone for share in status.zones],
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


def _devices(inventory: NodeInventory | None, claims: Iterable[Claim]) -> list[NodeDevice]:
    holdings: dict[tuple[str, int], list[Holding]] = {}
    for claim in claims:
        for grant in filter(_is_device, claim.grants):
            holding = Holding(holder=text_of(claim.name), amounts=dict(grant.amounts))
            holdings.setdefault((grant.kind, grant.minor), []).append(holding)
    devices = [
        NodeDevice(
            kind=each.kind,
            minor=each.minor,
            healthy=each.healthy,
            uuid=each.uuid,
            numa_node=each.numa_node,
            pcie=each.pcie,
            amounts=dict(each.amounts),
            holdings=holdings.pop((each.kind, each.minor), []),
        )
        for each in (inventory.devices if inventory is not None else ())
    ]
    gone = [
        NodeDevice(kind=kind, minor=minor, reported=False, healthy=False, holdings=held)
        for (kind, minor), held in holdings.items()
    ]
    return sorted([*devices, *gone], key=lambda each: (each.kind, each.minor))


def _is_device(grant: Grant) -> bool:
    return grant.kind in DEVICE_KINDS and grant.minor >= 0


def _zones(reported: ReportedTopology, given: Given) -> Iterator[NodeZone]:
    layout = reported.layout
    for zone in sorted({*reported.zones, *(layout.zones if layout is not None else ())}):
        yield NodeZone(
            id=zone,
            amounts=dict(reported.zones.get(zone, {})),
            holdings=[
                Holding(holder=text_of(claim.name), amounts=dict(share.amounts))
                for claim, status in given
                for share in status.zones
                if share.zone == zone
            ],
            cores=[list(core.cpus) for core in layout.zones.get(zone, ())] if layout is not None else [],
        )


def _own_cpus(reported: ReportedTopology, given: Given) -> dict[str, str]:
    own = {text_of(claim.name): status.cpus for claim, status in given if status.cpus}
    for each in reported.by_kubelet:
        holder = f"{each.namespace}/{each.name}" if each.name else f"pod {each.uid}"
        if each.cpus:
            own[holder] = own.get(holder, frozenset()) | each.cpus
    return {holder: format_cpuset(cpus) for holder, cpus in own.items()}


def _by_kubelet(reported: ReportedTopology) -> frozenset[int]:
    return frozenset(cpu for each in reported.by_kubelet for cpu in each.cpus)
