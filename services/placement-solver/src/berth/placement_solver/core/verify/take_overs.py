"""A Reservation that takes over pods: may it, are they there and its own, and does it hold what they hold.

Asked of the objects and of the holders of its node; how the solver found them is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.base import Problem
from berth.contracts.ledger import Step
from berth.contracts.state import Reservation
from berth.placement_solver.core.verify.reservations import grant_problems_of_user
from berth.placement_solver.core.verify.view import View
from berth.rules.records import registry
from berth.rules.reservation_fit import RESTRICTED
from berth.rules.reservation_take_over import (
    LET_GO,
    LET_GO_MAX,
    TAKE_OVER,
    holds_too,
    misused,
    take_over_of,
    why_not_taken,
)
from berth.rules.scheduler_config import ReservationArgs
from berth.transaction.claims import Claim

ACTIONS = (TAKE_OVER, LET_GO)


def as_users(held: Sequence[Claim], arriving: Sequence[Claim]) -> list[Claim]:
    """The holders of a node once those are users of a Reservation that is about to take them over."""
    taker = {
        step.pod_uid: claim.uid
        for claim in arriving
        if claim.is_reservation
        for step in claim.before
        if step.action == TAKE_OVER
    }
    if not taker:
        return list(held)
    return [
        each._replace(reservation=taker[each.uid]) if each.uid in taker and not each.reservation else each
        for each in held
    ]


def take_over_problems(claim: Claim, held: Sequence[Claim], arriving: Sequence[Claim], view: View) -> Iterator[str]:
    """What speaks against the take-overs of this claim. `held` are the holders of its node as they are now."""
    steps = [step for step in claim.before if step.action in ACTIONS]
    yield from _lets_go_of_strangers(claim, steps, view)
    reservation = view.book.seen(claim.name)
    if not isinstance(reservation, Reservation) or not reservation.pre_allocation:
        if any(step.action == TAKE_OVER for step in steps):
            yield "takes over pods and does not ask for it"
        return
    yield from (f"{field}: {text}" for field, text in misused(reservation.pre_allocation_mode, RESTRICTED))
    if reservation.allocate_policy != RESTRICTED:
        yield f"takes over pods with the policy {reservation.allocate_policy or 'Default'}"
    profile = view.profile_of(reservation.template.scheduler)
    config = profile.args_of("Reservation", ReservationArgs).pre_allocation_config
    take_over = take_over_of(reservation, config)
    if isinstance(take_over, Problem):
        yield f"{take_over.field}: {take_over.message}"
        return
    row = view.nodes.rows.get(claim.node)
    node = view.nodes.states[row] if row is not None else None
    of = {each.uid: each for each in held if not each.is_reservation}
    uids = [step.pod_uid for step in steps if step.action == TAKE_OVER]
    if take_over.is_required and not uids:
        yield "takes over nobody, and has to"
    if len(set(uids)) < len(uids):
        yield "takes over a pod twice"
    elsewhere = {
        step.pod_uid for each in arriving if each is not claim for step in each.before if step.action == TAKE_OVER
    }
    users: list[Claim] = []
    for step in steps:
        if step.action != TAKE_OVER:
            continue
        who = f"{step.namespace}/{step.pod}"
        pod, holder = view.book.pods.get((step.namespace, step.pod)), of.get(step.pod_uid)
        if pod is None or pod.uid != step.pod_uid or holder is None or not holder.is_bound or pod.node != claim.node:
            yield f"takes over {who}, which is not on node {claim.node}"
            continue
        if holder.reservation or holder.loans or step.pod_uid in elsewhere:
            yield f"takes over {who}, which draws on a reservation, or is taken over by another one"
        if why := why_not_taken(take_over, pod, node.labels if node is not None else {}):
            yield f"takes over {who}, which does not match it: {why}"
        if not holds_too(take_over, holder.amounts, [each.amounts for each in users]):
            yield f"takes over {who}, which does not fit into it"
        if any(step.pod_uid == victim.uid for each in view.book.nominations for victim in each.victims):
            yield f"takes over {who}, which is to leave for another pod"
        users.append(holder._replace(reservation=claim.uid))
    for user in users:
        yield from grant_problems_of_user(user, claim, users, take_over.tracked, reservation.name)
    let_go = {step.pod_uid for step in steps if step.action == LET_GO}
    if len(let_go) >= LET_GO_MAX:
        return
    for uid in sorted(of.keys() - set(uids) - let_go):
        seen = view.book.pods.get(of[uid].name)
        if seen is not None and seen.uid == uid and _notes(seen.template.annotations, claim.uid):
            yield f"leaves its note on {'/'.join(of[uid].name)}, which it does not take over"


def _lets_go_of_strangers(claim: Claim, steps: Sequence[Step], view: View) -> Iterator[str]:
    """Only a Reservation takes its own note off pods."""
    for step in steps:
        if step.action == LET_GO:
            pod = view.book.pods.get((step.namespace, step.pod))
            if pod is None or pod.uid != step.pod_uid or not _notes(pod.template.annotations, claim.uid):
                yield f"lets go of {step.namespace}/{step.pod}, which does not note it"


def _notes(annotations: dict[str, str], uid: str) -> bool:
    return registry.RESERVATION.read(annotations) == uid
