"""Who may be made to leave as a placeholder: one, for one pod, whose owner that is, and on its own node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.state import Pod
from berth.placement_solver.core.verify.view import View
from berth.rules.preemption import BY_HAND_OVER
from berth.rules.reservation_operating import why_not_handed_over
from berth.transaction.claims import Claim


def hand_over_problems(claims: Sequence[Claim], victims: Sequence[Pod], view: View) -> Iterator[str]:
    """What keeps these victims from handing over to these claims."""
    if len(claims) != 1 or len(victims) != 1:
        yield "one placeholder hands over to one pod"
        return
    (claim,), (victim,) = claims, victims
    who = f"victim {victim.namespace}/{victim.name}"
    user, placeholder = view.book.pods.get(claim.name), view.book.pods.get((victim.namespace, victim.name))
    row = view.nodes.rows.get(victim.node)
    node = view.nodes.states[row] if row is not None else None
    if user is None or placeholder is None or node is None:
        yield f"{who}, its node or its user is not known"
    elif why := why_not_handed_over(placeholder, user, node.labels):
        yield f"{who} does not hand over: {why}"
    if any(
        other.uid == victim.uid and each.name != claim.name for each in view.book.nominations for other in each.victims
    ):
        yield f"{who} leaves for another pod already"
    if any(each.uid == victim.uid and each.reservation for each in view.book.claims_on(victim.node)):
        yield f"{who} draws on a reservation, to which its place falls back"


def is_handed_over(claim: Claim, view: View) -> bool:
    """Whether the claim is the place that a placeholder has left, or leaves, for this pod."""
    nomination = view.book.nominations.of(claim.name)
    decision = nomination.decision if nomination is not None else None
    return (
        decision is not None
        and decision.uid == claim.uid
        and decision.node == claim.node
        and decision.eviction_reason == BY_HAND_OVER
    )
