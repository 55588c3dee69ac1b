"""Law of QuotaTree: a pod that a tree with a pool of nodes pays for is on one of these nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from berth.contracts.kube import Requirement
from berth.placement_solver.core.verify.view import View
from berth.transaction.claims import Claim


def tree_problems(claims: Sequence[Claim], view: View) -> Iterator[str]:
    """What speaks against the nodes of these claims, by what QUOTA says of who is charged."""
    for claim in claims:
        if not claim.quota or claim.is_reservation:
            continue
        tree, _, name = claim.quota.rpartition("/")
        group = view.quotas.groups.get((tree, name))
        if group is None or not group.nodes:
            continue
        row = view.nodes.rows.get(claim.node)
        node = view.nodes.states[row] if row is not None else None
        if node is None or not all(_holds(each, node.labels) for each in group.nodes):
            yield f"{'/'.join(claim.name)}: node {claim.node} is not in the pool of tree {tree}"


def _holds(wanted: Requirement, labels: Mapping[str, str]) -> bool:
    """One requirement; one that says nothing that can be understood holds nowhere."""
    there, values = wanted.key in labels, wanted.values or []
    match wanted.operator:
        case "In":
            return there and labels[wanted.key] in values
        case "NotIn":
            return bool(values) and (not there or labels[wanted.key] not in values)
        case "Exists":
            return there and not values
        case "DoesNotExist":
            return not there and not values
    return False
