"""A Reservation that grows in place: is it there, does it ask for just that, and may its node take it.

Asked of the object and of what the ledger holds of it; whether the node has so much is asked of the holders.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts.state import Reservation
from berth.placement_solver.core.verify.objects import node_problems
from berth.placement_solver.core.verify.view import View
from berth.rules.records.evidence import held_by_reservation
from berth.rules.reservation_resize import growth, resized_amounts, why_not_growing
from berth.transaction.claims import Claim


def growth_problems(claim: Claim, view: View) -> Iterator[str]:
    """What speaks against letting this Reservation hold what the claim says, beside the capacity of its node."""
    found = view.book.seen(claim.name)
    if not isinstance(found, Reservation) or found.uid != claim.uid:
        yield f"there is no such Reservation with uid {claim.uid}"
        return
    if not found.node or found.node != claim.node:
        yield f"is on {found.node or 'no node'}, and is to grow on {claim.node}"
    if found.deleting or found.phase != "Available":
        yield f"is {found.phase or 'Pending'} or being deleted, so it does not grow"
    if claim.attempt != found.attempt:
        yield f"the claim is for attempt {claim.attempt}, the object is at {found.attempt}"
    if not claim.plan or claim.plan == found.plan:
        yield "the claim names no plan of its own"
    wanted = resized_amounts(found.annotations)[0]
    more = growth(found.allocatable, wanted)
    if not more:
        yield "does not ask for more than it holds"
    if claim.amounts != {**found.allocatable, **more}:
        yield "the claim's amounts are not those that it holds and asks for"
    grants = held_by_reservation(found.annotations, found.template).grants
    if claim.grants != grants:
        yield "the claim grants something else than it holds"
    held = view.book.ledger.decisions.get(claim.name)
    steps = held.decision.before if held is not None else []
    why = why_not_growing(grants, takes_over=found.pre_allocation or bool(steps))
    if why is not None:
        yield f"{why.field}: {why.message}"
    standing = held.decision if held is not None and not view.book.is_settled(held.decision) else None
    if standing is not None and standing.plan != found.plan:
        yield f"the decision of plan {standing.plan} still stands for it"
    row = view.nodes.rows.get(claim.node)
    node = view.nodes.states[row] if row is not None else None
    if node is not None:
        yield from node_problems(found, node, view.profile_of(found.template.scheduler))
