"""Who may be planned while others leave for it (E1), and who may be made to leave for whom (E2, E9, E10)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from berth.contracts.state import Pod
from berth.placement_solver.core.verify.gangs import settings_of
from berth.placement_solver.core.verify.view import View
from berth.rules.gang_config import gang_of_pod
from berth.rules.preemption import NEVER, why_protected
from berth.transaction.claims import Claim, Name
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


def victim_problems(claim: Claim, victims: Sequence[Pod], view: View) -> Iterator[str]:
    """Pods that would have to leave for this claim and must not."""
    waits = view.book.seen(claim.name)
    if not isinstance(waits, Pod):
        yield "is no pod, so nobody leaves for it"
        return
    if victims and waits.template.preemption_policy == NEVER:
        yield "nobody may be made to leave for it"
    for victim in victims:
        who = f"victim {victim.namespace}/{victim.name}"
        seen = view.book.pods.get((victim.namespace, victim.name))
        if seen is None or (seen.uid, seen.version, seen.node) != (victim.uid, victim.version, claim.node):
            yield f"{who} is not on node {claim.node} as it was chosen"
        elif seen.template.priority >= waits.template.priority:
            yield f"{who} is not of lower priority"
        elif protected := why_protected(seen):
            yield f"{who} is protected: {protected}"
        elif _is_held_by_gang(seen, view):
            yield f"{who} belongs to a strict gang"


def displaced_problems(
    claim: Claim, displaced: Collection[Nomination], victims: Sequence[Pod], view: View
) -> Iterator[str]:
    """Nominations that would give way and must not."""
    waits = view.book.seen(claim.name)
    leaving = {victim.uid for victim in victims}
    for each in displaced:
        who = f"the nomination of {'/'.join(each.name)}"
        if waits is None or each.priority >= waits.template.priority:
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


def _is_held_by_gang(pod: Pod, view: View) -> bool:
    """From the PodGroup; without one from what counts for the gang, where the pod is one of its members here, or from
    what the pod says itself."""
    own = gang_of_pod(pod.namespace, pod.template.labels, pod.template.annotations)
    if own is None:
        return False
    gang = view.gangs.gangs.get(own.id)
    is_ours = gang is not None and (pod.namespace, pod.name) in gang.children
    config = settings_of(own.id, view) if is_ours or own.id in view.pod_groups else own
    return config is None or config.mode == "Strict"
