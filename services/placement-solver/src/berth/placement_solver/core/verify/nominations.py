"""Who may be planned while others leave for it (E1), and who may be made to leave for whom (E2, E9, E10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.verify.gangs import settings_of
from berth.placement_solver.core.verify.view import View
from berth.rules.gang_config import gang_of_pod
from berth.rules.gang_member import Member
from berth.rules.preemption import BY_HAND_OVER, BY_OWNER, BY_QUOTA, BY_SCHEDULER, NEVER, why_protected
from berth.rules.reservation_borrowers import ignores_reservations
from berth.rules.reservation_displaces import why_spared
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Claim, Name, name_of
from berth.transaction.nominations import Nomination


def turn_problems(claim: Claim, view: View, *, nominates: bool) -> Iterator[str]:
    """What lies under the name already. A pod is decided when all its victims leave or have left, nominated anew only
    when they have left."""
    decision = view.book.open_decision(claim.name)
    if decision is None:
        return
    nomination = view.book.nominations.of(claim.name)
    if nomination is None or not decision.nominates or decision.uid != claim.uid:
        yield "a decision under this name is still open"
    elif view.book.staying_victims(nomination):
        yield "victims of its nomination have not begun to leave"
    elif nominates and view.book.remaining_victims(nomination):
        yield "victims of its nomination have not left"


def victim_problems(claims: Sequence[Claim], victims: Sequence[Pod], reason: str, view: View) -> Iterator[str]:
    """Pods that would have to leave for these claims and must not."""
    waiting = [view.book.seen(claim.name) for claim in claims]
    pods = [each for each in waiting if each is not None]
    if len(pods) < len(claims):
        yield "what waits is not known, so nobody leaves for it"
        return
    right_to_stay = RIGHTS_TO_STAY.get(reason)
    if right_to_stay is None:
        yield f"nobody leaves for the reason {reason}"
        return
    for pod in pods:
        if victims and pod.template.preemption_policy == NEVER:
            yield f"{'/'.join(name_of(pod))}: nobody may be made to leave for it"
    if reason == BY_OWNER and not all(claim.reservation for claim in claims):
        yield "draws on no reservation, so nobody leaves for its owner"
    nodes = {claim.node for claim in claims}
    held_whole = {victim.uid for unit in units_of(victims, view) if len(unit) > 1 for victim in unit}
    for victim in victims:
        who = f"victim {victim.namespace}/{victim.name}"
        seen = view.book.pods.get((victim.namespace, victim.name))
        if seen is None or (seen.uid, seen.version, seen.node) != (victim.uid, victim.version, victim.node):
            yield f"{who} is not on node {victim.node} as it was chosen"
        elif victim.node not in nodes and victim.uid not in held_whole and reason != BY_QUOTA:
            yield f"{who} is on node {victim.node}, where nobody would go"
        elif problem := right_to_stay(seen, pods):
            yield f"{who} {problem}"
        elif protected := why_protected(seen):
            yield f"{who} is protected: {protected}"


def _is_not_lower(victim: Pod, waiting: Sequence[Pod | Reservation]) -> str:
    lowest = min(each.template.priority for each in waiting)
    if victim.template.priority >= lowest:
        return "is not of lower priority"
    return next((why for each in waiting if isinstance(each, Reservation) and (why := why_spared(each, victim))), "")


def _by_quota(victim: Pod, waiting: Sequence[Pod | Reservation]) -> str:
    return ""  # whom quota keeps is for `reclaims` to say


def _no_borrower(victim: Pod, waiting: Sequence[Pod | Reservation]) -> str:
    return "" if ignores_reservations(victim.template.labels) else "borrows nothing of reservations"


def _by_hand_over(victim: Pod, waiting: Sequence[Pod | Reservation]) -> str:
    return ""  # whose placeholder it is depends on its node, too: `hand_overs` says it


RIGHTS_TO_STAY: Final[Mapping[str, Callable[[Pod, Sequence[Pod | Reservation]], str]]] = {
    BY_SCHEDULER: _is_not_lower,
    BY_QUOTA: _by_quota,
    BY_OWNER: _no_borrower,
    BY_HAND_OVER: _by_hand_over,
}
"""By the reason for which pods leave: what keeps a victim from leaving for these; empty: nothing (E10)."""


def victim_gang_problems(victims: Sequence[Pod], view: View) -> Iterator[str]:
    """Strict gangs that would keep some of their members, but fewer than they need (E9); one of which is not known how
    many it needs, as its PodGroup is gone, needs all."""
    chosen = {victim.uid for victim in victims}
    judged: set[str] = set()
    for victim in victims:
        gang_id = _strict_gang(victim, view)
        if not gang_id or gang_id in judged:
            continue
        judged.add(gang_id)
        who = f"victim {victim.namespace}/{victim.name}"
        gang, config = view.gangs.gangs.get(gang_id), settings_of(gang_id, view)
        if gang is None or (victim.namespace, victim.name) not in gang.children:
            yield f"{who} belongs to a strict gang that is not Berth's"
            continue
        left = sum(1 for each in _staying(gang_id, view) if each.uid not in chosen)
        minimum = config.min_member if config is not None else None
        if left and (minimum is None or left < minimum):
            yield f"{who} leaves {left} of its gang {gang_id}, which needs {minimum or 'all'}"


def units_of(victims: Sequence[Pod], view: View) -> list[list[Pod]]:
    """Victims that leave together or not at all: the members of a strict gang of which nobody stays, or each by
    itself."""
    chosen = {victim.uid for victim in victims}
    units: dict[str, list[Pod]] = {}
    for victim in victims:
        gang_id = _strict_gang(victim, view)
        is_whole = gang_id and all(each.uid in chosen for each in _staying(gang_id, view))
        units.setdefault(gang_id if is_whole else victim.uid, []).append(victim)
    return list(units.values())


def _staying(gang_id: str, view: View) -> Iterator[Member]:
    """The members of a gang that are on nodes, are not leaving, and are nobody's victims."""
    gang = view.gangs.gangs.get(gang_id)
    victims = {each.uid for nomination in view.book.nominations for each in view.book.remaining_victims(nomination)}
    for name in sorted(gang.children) if gang is not None else ():
        seen = view.book.seen(name)
        if (
            seen is not None
            and seen.node
            and not seen.deleting
            and seen.uid not in victims
            and seen.phase not in FINISHED_PHASES
        ):
            yield seen


def displaced_problems(
    claims: Sequence[Claim], displaced: Collection[Nomination], victims: Sequence[Pod], view: View
) -> Iterator[str]:
    """Nominations that would give way and must not."""
    waiting = [view.book.seen(claim.name) for claim in claims]
    lowest = min((each.template.priority for each in waiting if each is not None), default=None)
    leaving = {victim.uid for victim in victims}
    for each in displaced:
        who = f"the nomination of {'/'.join(each.name)}"
        if lowest is None or each.priority >= lowest:
            yield f"{who} is not of lower priority"
        elif any(victim.uid not in leaving for victim in view.book.staying_victims(each)):
            yield f"{who} has victims that have not begun to leave"


def nominated_beside(claims: Sequence[Claim], displaced: Collection[Name], view: View) -> list[Claim]:
    """What LEDGER's nominations hold against a plan. What STATE alone shows holds for as long as its pod could have it,
    which is for the solver to say."""
    own = {claim.name for claim in claims}
    return [
        each.claim
        for each in view.book.nominations
        if each.decision is not None and each.name not in own and each.name not in displaced
    ]


def _strict_gang(pod: Pod, view: View) -> str:
    """The id of the strict gang that a pod belongs to, or empty: from the PodGroup; without one from what counts for
    the gang, where the pod is one of its members here, or from what the pod says itself."""
    own = gang_of_pod(pod.namespace, pod.template.labels, pod.template.annotations)
    if own is None:
        return ""
    gang = view.gangs.gangs.get(own.id)
    is_ours = gang is not None and (pod.namespace, pod.name) in gang.children
    config = settings_of(own.id, view) if is_ours or own.id in view.pod_groups else own
    return own.id if config is None or config.mode == "Strict" else ""
