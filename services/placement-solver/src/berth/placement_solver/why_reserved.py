"""Answers to people about Reservations: what each holds, who uses it, who borrows of it and who waits for it; and for a
pod that waits, at which step each Reservation that may be meant for it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from berth.contracts.base import Problem, Reason
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.reserved import Offer
from berth.placement_solver.core.reserved_choice import usable
from berth.placement_solver.core.words import text_of
from berth.placement_solver.why_others import PODS_MAX
from berth.resources.amounts import format_amount
from berth.rules.node_fit import TOO_MANY_PODS
from berth.rules.reservation_fit import RESTRICTED
from berth.rules.reservation_match import Check, ReservationRequest, reservation_request_of
from berth.rules.reservation_window import held_hours, window_of
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Claim, Name
from berth.transaction.owners import identity_of

SHOWN_MAX: Final = 20
"""Reservations of which a pod is told."""
BORROWERS_SHOWN: Final = 5
STEPS: Final[Mapping[Check, str]] = {
    "owners": "owners: does not accept it",
    "name": "name: it asks for another one",
    "unschedulable": "unschedulable: takes no new users",
    "taint": "taint: has one that its reservation affinity does not tolerate",
    "affinity": "affinity: is not what its reservation affinity asks for",
    "exactMatch": "exact match: is of another size",
}
"""What a check says that keeps a pod off."""


def steps_of(cluster: ClusterView, candidate: Candidate) -> dict[str, str]:
    """For a pod that waits: of each Reservation that accepts it, or that it asks for by name, the step that fails."""
    wish = candidate.wish
    if wish is None or wish.problem is not None:
        return {}
    return dict(islice(_steps(cluster, candidate, wish), SHOWN_MAX))


def _steps(cluster: ClusterView, candidate: Candidate, wish: ReservationRequest) -> Iterator[tuple[str, str]]:
    offered = set()
    for offer, failed in sorted(
        cluster.reservations.checked(wish, cluster.capacity), key=lambda each: (each[1] is not None, each[0].name)
    ):
        offered.add(offer.name)
        if failed in ("owners", "name") and offer.name != wish.name:
            continue
        said = STEPS[failed] if failed is not None else _lacking(cluster, candidate, wish, offer)
        yield text_of(("", offer.name)), said
    for known in cluster.reservations.known.values():
        capacity = known.capacity
        if capacity.name in offered or (wish.name and capacity.name != wish.name):
            continue
        if known.owners.accept(wish.identity):
            why = "has its user" if capacity.allocate_once and capacity.phase != "Pending" else "holds nothing"
            yield text_of(("", capacity.name)), f"state: {capacity.phase}, {why}"


def _lacking(cluster: ClusterView, candidate: Candidate, wish: ReservationRequest, offer: Offer) -> str:
    """What one that matches lacks: by its policy, its limit of pods, its node, or what the node says beyond amounts."""
    judged = usable(wish, [offer], cluster.nodes, candidate.cls.rules.reservation_ignored)
    lent = _lent_to(cluster, offer)
    if next(judged.best_first, None) is not None:
        found = cluster.solver.draw_on(candidate, offer, "why")
        step = f"node: {_of(found, offer)}" if isinstance(found, Reason) else "would take it"
    else:
        text = ", ".join(_of(each, offer) for each in judged.reasons)
        policy = offer.known.capacity.allocate_policy
        step = f"remainder ({policy}): {text}" if policy == RESTRICTED else f"node: {text}"
        if TOO_MANY_PODS in text:
            step = f"limit of pods: {text}"
    return f"{step}; {lent}" if lent else step


def _of(reason: Reason, offer: Offer) -> str:
    return reason.message.removeprefix(f"reservation {offer.name}: ")


def _lent_to(cluster: ClusterView, offer: Offer) -> str:
    borrowers = sorted(text_of(name) for name, _ in offer.holder.loans)
    more = f" and {len(borrowers) - BORROWERS_SHOWN} more" if len(borrowers) > BORROWERS_SHOWN else ""
    return f"lent to {', '.join(borrowers[:BORROWERS_SHOWN])}{more}" if borrowers else ""


def lenders_of(cluster: ClusterView, name: Name) -> dict[str, str]:
    """Of whom a pod borrows, and how much."""
    loans = [loan for claim in cluster.book.claims_of(name) for loan in claim.loans]
    if not loans:
        return {}
    return {"borrows of": "; ".join(f"{loan.reservation}: {_texts(loan.amounts) or 'devices'}" for loan in loans)}


def used_by(cluster: ClusterView, claim: Claim) -> str:
    """The name of the Reservation that a holder draws on, also where that has taken it over; empty: of none."""
    uid = claim.reservation
    return next((seen.name for seen in cluster.book.reservations.values() if seen.uid == uid), "") if uid else ""


def problems_of(cluster: ClusterView, seen: Reservation) -> list[Problem]:
    """What cannot be used of the object, by who reads it first and by who publishes its capacity."""
    known = cluster.reservations.known.get(seen.uid)
    return [*seen.problems, *(each for each in (known.capacity.problems if known else ()) if each not in seen.problems)]


def holders_of(cluster: ClusterView, seen: Reservation) -> dict[str, str]:
    """The pods that hold something out of a Reservation, and those that wait for it."""
    found: dict[Name, str] = {}
    for claim in sorted(cluster.book.claims_on(seen.node), key=lambda each: each.name) if seen.node else ():
        if claim.reservation == seen.uid:
            found[claim.name] = f"uses {_texts(claim.amounts)}"
        elif lent := _loan(claim, seen.uid):
            found[claim.name] = f"borrows {lent}"
    for pod in _waiting(cluster, seen):
        found.setdefault((pod.namespace, pod.name), "waits")
    return {text_of(name): text for name, text in islice(found.items(), PODS_MAX)}


def facts_of(cluster: ClusterView, seen: Reservation) -> dict[str, str]:
    """What a Reservation holds, lends and costs."""
    holder = cluster.capacity.reserved.get(seen.uid)
    held = seen.allocatable or seen.template.requests
    window = window_of(seen.annotations)
    facts = {
        "state": seen.phase or "Pending",
        "holds": _texts(held),
        "in use": _texts(holder.used) if holder is not None else "",
        "left": _texts(holder.offered.amounts) if holder is not None else "",
        "lent to": _counted(len(holder.loans), "borrower") if holder is not None and holder.loans else "",
        "waiting": str(sum(1 for _ in _waiting(cluster, seen)) or ""),
        "priority": str(seen.template.priority) if seen.is_priority_set else "",
    }
    if window is not None:
        hours = held_hours(window)
        facts["window"] = f"{window.start} to {window.end}, of schedule {window.schedule}"
        facts["costs"] = ", ".join(f"{_text(name, int(amount * hours))} hours" for name, amount in sorted(held.items()))
    return {name: text for name, text in facts.items() if text}


def of_reservations(cluster: ClusterView, question: WhyQuestion) -> WhyAnswer:
    """A line for each Reservation, those that are over last."""
    listed = sorted(cluster.book.reservations.values(), key=lambda seen: (seen.phase in FINISHED_PHASES, seen.name))
    return WhyAnswer(
        kind=question.kind,
        namespace="",
        name="",
        outcome="known",
        mine=True,
        message=_counted(len(listed), "Reservation") + (f", {PODS_MAX} are shown" if len(listed) > PODS_MAX else ""),
        pods={seen.name: _line(cluster, seen) for seen in listed[:PODS_MAX]},
    )


def _line(cluster: ClusterView, seen: Reservation) -> str:
    holder = cluster.capacity.reserved.get(seen.uid)
    parts = [f"{seen.phase or 'Pending'} on {seen.node}" if seen.node else seen.phase or "Pending"]
    problem = next((f"{each.field}: {each.message}" for each in problems_of(cluster, seen)), "")
    if holder is None:
        holds = _texts(seen.allocatable or seen.template.requests)
        return ", ".join(filter(None, (parts[0], holds, problem)))
    uses = [
        f"{_text(name, holder.used.get(name, 0))} of {format_amount(name, amount)}"
        for name, amount in sorted(holder.claim.amounts.items())
    ]
    parts += [*uses, _counted(len(holder.users), "user")]
    if holder.loans:
        parts.append(_counted(len(holder.loans), "borrower"))
    return ", ".join([*parts, *filter(None, (problem,))])


def _waiting(cluster: ClusterView, seen: Reservation) -> Iterator[Pod]:
    """The pods that wait for a node and that it accepts."""
    known = cluster.reservations.known.get(seen.uid)
    if known is None or known.owners.problems:
        return
    for pod in cluster.book.pods.values():
        if pod.node or pod.deleting or pod.phase in FINISHED_PHASES or not cluster.is_ours(pod):
            continue
        if known.owners.accept(identity_of(pod)) and reservation_request_of(pod) is not None:
            yield pod


def _loan(claim: Claim, uid: str) -> str:
    return "; ".join(_texts(loan.amounts) or "devices" for loan in claim.loans if loan.reservation_uid == uid)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _texts(amounts: Mapping[str, int]) -> str:
    return ", ".join(_text(name, amount) for name, amount in sorted(amounts.items()) if amount)


def _text(name: str, amount: int) -> str:
    return f"{name} {format_amount(name, amount)}"
