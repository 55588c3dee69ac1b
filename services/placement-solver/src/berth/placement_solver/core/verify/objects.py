"""The object behind a claim, and whether the node of the claim may take it at all."""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts.state import Node, Pod, Reservation
from berth.placement_solver.core.verify.grants import Place, grant_problems, wish_of
from berth.placement_solver.core.verify.reservations import affinity_problems
from berth.placement_solver.core.verify.view import View
from berth.resources.amounts import Amounts
from berth.rules.node_affinity import compile_node_rule
from berth.rules.scheduler_config import NodeAffinityArgs, Profile
from berth.rules.taints import Tolerations
from berth.transaction.claims import Claim

ENDED = ("Succeeded", "Failed")


def object_problems(
    claim: Claim, view: View, before: Claim | None = None, *, is_handed_over: bool = False
) -> Iterator[str]:
    """What speaks against placing this object now, and on this node; capacity is not looked at.

    `before` was looked at just now: what speaks against an object that says the same, or against the node for it, was
    said of it.
    `is_handed_over`: it takes the place of a placeholder, which is a Reservation to it.
    """
    obj = view.book.seen(claim.name)
    if obj is None or obj.uid != claim.uid:
        yield f"there is no such object with uid {claim.uid}"
        return
    if obj.node:
        yield f"is on node {obj.node} already"
    if obj.deleting or obj.phase in ENDED:
        yield "is ending or has ended"
    if claim.attempt != obj.attempt:
        yield f"the claim is for attempt {claim.attempt}, the object is at {obj.attempt}"
    if not claim.plan:
        yield "the claim names no plan"
    if before is None or not _are_alike(claim, obj, before, view):
        yield from _own_problems(claim, obj, is_handed_over=is_handed_over)
    elif claim.node == before.node:
        return
    row = view.nodes.rows.get(claim.node)
    node = view.nodes.states[row] if row is not None else None
    if row is None or node is None:
        return
    wish = wish_of(obj.template, view)
    place = Place(node, view.nodes.inventories[row], view.nodes.topologies[row])
    yield from grant_problems(claim, wish, place)
    yield from node_problems(obj, node, wish.profile)


def _own_problems(claim: Claim, obj: Pod | Reservation, *, is_handed_over: bool) -> Iterator[str]:
    """What speaks against the claim whatever its node is, of what others may say as well."""
    if obj.template.gates:
        yield f"is held by a scheduling gate {obj.template.gates[0]}"
    if obj.problems or obj.template.constraints:
        yield "says something about its placement that cannot be honoured"
    requests = obj.template.requests
    if claim.amounts != requests and _positive(claim.amounts) != _positive(requests):
        yield "the claim's amounts are not those of the request"
    ports = obj.template.host_ports
    if (claim.ports or ports) and sorted(claim.ports) != sorted(
        _port_text(port.host_ip, port.protocol, port.port) for port in ports
    ):
        yield "the claim's host ports are not those of the object"
    if isinstance(obj, Pod) and not is_handed_over:
        yield from affinity_problems(claim, obj)


def _are_alike(claim: Claim, obj: Pod | Reservation, before: Claim, view: View) -> bool:
    """Whether two pods say the same, and their claims the same of what they ask for; neither is granted anything
    within its node, or draws on a reservation."""
    other = view.book.seen(before.name)
    return (
        not claim.grants
        and not before.grants
        and claim.amounts == before.amounts
        and claim.ports == before.ports
        and not claim.reservation
        and not before.reservation
        and isinstance(obj, Pod)
        and isinstance(other, Pod)
        and not obj.problems
        and not other.problems
        and obj.template == other.template
    )


def node_problems(obj: Pod | Reservation, node: Node, profile: Profile) -> Iterator[str]:
    """Rules that the profile of the object has, and those that nobody can switch off."""
    template, rules = obj.template, profile.constraints
    if node.deleting:
        yield f"node {node.name} is being deleted"
    is_marked = node.unschedulable and "NodeUnschedulable" in rules
    taints = node.taints if "TaintToleration" in rules else []
    if (is_marked or taints) and not Tolerations(template.tolerations).admit(taints, unschedulable=is_marked):
        yield f"node {node.name} has a taint or mark that is not tolerated"
    if "NodeAffinity" in rules:
        added = profile.args_of("NodeAffinity", NodeAffinityArgs).added_affinity
        if added is not None and not compile_node_rule(None, added).matches(node.labels, node.name):
            yield f"node {node.name} does not match the affinity that the configuration adds"
        own = compile_node_rule(template.node_selector, template.affinity)
        if not own.unrestricted and not own.matches(node.labels, node.name):
            yield f"node {node.name} does not match the node selector or affinity"
    wanted = obj.required_node if isinstance(obj, Reservation) else ""
    if "NodeName" in rules and wanted and wanted != node.name:
        yield f"wants node {wanted}, is placed on {node.name}"


def _positive(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def _port_text(address: str, protocol: str, port: int) -> str:
    return f"{address or '0.0.0.0'}/{protocol}/{port}"  # noqa: S104 - the written form, nothing is bound
