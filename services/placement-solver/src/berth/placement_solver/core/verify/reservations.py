"""A claim that draws on a reservation: is it there, on this node, as pod and reservation want it, is enough left.

The rules are those of the protocol (`berth.rules.reservation_match`, `reservation_fit`), asked anew of the holders.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence, Set
from typing import Final

from berth.contracts import names
from berth.contracts.grants import CPU, ZONE
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.grants import granted
from berth.placement_solver.core.verify.view import View
from berth.rules.records import registry
from berth.rules.reservation_borrowers import why_not_lent
from berth.rules.reservation_fit import RESTRICTED, Matched, allocated_of, reservation_lacks, tracked_names
from berth.rules.reservation_match import failed_check, reservation_request_of
from berth.rules.reservation_owners import compile_owners
from berth.rules.scheduler_config import ReservationArgs
from berth.transaction.claims import Claim, drawn_from

WISHES: Final = (names.ANNOTATION_RESERVATION_AFFINITY, names.ANNOTATION_RESERVATION_EXACT)
"""Annotations by which a pod has to have a reservation."""


def draw_problems(claim: Claim, held: Sequence[Claim], arriving: Sequence[Claim], view: View) -> Iterator[str]:
    """What speaks against this claim drawing on its reservation."""
    known = view.reservations.known.get(claim.reservation)
    holder = next((each for each in held if each.is_reservation and each.uid == claim.reservation), None)
    if known is None or holder is None:
        yield f"draws on a reservation {claim.reservation} that holds nothing on node {claim.node}"
        return
    capacity: ReservedCapacity = known.capacity
    if not capacity.usable:
        yield f"reservation {capacity.name} takes no new users"
    users = [each for each in (*held, *arriving) if each.reservation == claim.reservation]
    if capacity.allocate_once and len(users) > 1:
        yield f"reservation {capacity.name} serves one pod only"
    pod = view.book.seen(claim.name)
    ignored: Container[str] = ()
    if isinstance(pod, Pod):
        yield from _match_problems(pod, capacity, holder, view)
        ignored = view.profile_of(pod.template.scheduler).args_of("Reservation", ReservationArgs).ignored
    if capacity.allocate_policy == RESTRICTED:
        tracked = tracked_names(holder.amounts, capacity.restricted)
        others = [each for each in users if each is not claim]
        used = allocated_of((each.amounts for each in others), holder.amounts)
        matched = Matched(capacity.name, RESTRICTED, tracked, holder.amounts, used, holder.inner, users=len(others))
        for each in reservation_lacks(claim.amounts, matched, ignored=ignored):
            yield (
                f"reservation {capacity.name} has {each.capacity} of {each.resource} for users, who take {each.used}, "
                f"and {each.requested} is wanted"
            )
        yield from grant_problems_of_user(claim, holder, users, tracked, capacity.name)


def grant_problems_of_user(
    claim: Claim, holder: Claim, users: Sequence[Claim], tracked: Set[str], name: str
) -> Iterator[str]:
    """What the claim is granted of restricted kinds comes from what the reservation is granted, as far as it goes."""
    restricted = {kind for each in registry.GRANTS if not each.resources.isdisjoint(tracked) for kind in each.kinds}
    held = dict(granted(holder))
    # CPUs and shares of NUMA nodes are asked for by plain resources: of those that it holds some of.
    restricted |= {CPU} if names.CPU in tracked and any(item[0] == CPU for item in held) else set()
    of_zones = {item[2] for item in held if item[0] == ZONE} & tracked
    for item, amount in granted(claim):
        if amount > 0 and (item[0] in restricted or (item[0] == ZONE and item[2] in of_zones)):
            taken = sum(each for user in users for other, each in granted(user) if other == item)
            if taken > held.get(item, 0):
                yield f"reservation {name} holds {held.get(item, 0)} of {' '.join(item)}, its users take {taken}"


def affinity_problems(claim: Claim, pod: Pod) -> Iterator[str]:
    """A pod that has to use a reservation goes to one and nowhere else; what it says of them has to be readable."""
    if pod.template.annotations.keys().isdisjoint(WISHES):
        return
    wish = reservation_request_of(pod)
    if wish is None:
        return
    if wish.problem is not None:
        yield f"{wish.problem.field}: {wish.problem.message}"
    elif wish.must and not claim.reservation:
        yield "must use a reservation and draws on none"


def _match_problems(pod: Pod, capacity: ReservedCapacity, holder: Claim, view: View) -> Iterator[str]:
    wish = reservation_request_of(pod)
    if wish is None:
        yield "must not be booked on a reservation"
        return
    row = view.nodes.rows.get(holder.node)
    node = view.nodes.states[row] if row is not None else None
    accept = compile_owners(capacity.owners).accept
    failed = failed_check(wish, capacity, accept, node.labels if node is not None else {}, holder.amounts)
    if failed is not None:
        yield f"does not match reservation {capacity.name}: {failed}"


def loan_problems(claim: Claim, held: Sequence[Claim], view: View) -> Iterator[str]:
    """What speaks against a claim borrowing of reservations."""
    pod = view.book.seen(claim.name)
    if not isinstance(pod, Pod):
        yield "is no pod, so it borrows nothing"
        return
    if claim.reservation:
        yield "draws on a reservation and borrows as well"
    for loan in claim.loans:
        lender = next((each for each in held if each.is_reservation and each.uid == loan.reservation_uid), None)
        seen = view.book.reservations.get(("", loan.reservation))
        if lender is None or seen is None or seen.uid != loan.reservation_uid:
            yield f"borrows of reservation {loan.reservation}, which holds nothing on node {claim.node}"
            continue
        if why := why_not_lent(pod, seen.template.priority):
            yield f"borrows of reservation {loan.reservation}: {why}"
        for name, amount in loan.amounts.items():
            if not 0 < amount <= claim.amounts.get(name, 0):
                yield f"borrows {amount} of {name} of reservation {loan.reservation}, and does not ask for that"
            drawn = sum(part.amounts.get(name, 0) for part in drawn_from(held, lender.uid))
            idle = lender.amounts.get(name, 0) - lender.inner.get(name, 0) - drawn
            if amount > idle:
                yield f"borrows {amount} of {name} of reservation {loan.reservation}, of which {max(0, idle)} is idle"
