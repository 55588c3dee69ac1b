"""Decisions: none is lost, none is carried out for another pod than its own or in another way than it says."""

from __future__ import annotations

from collections.abc import Iterator

from berth.contracts import kube, names
from berth.contracts.ledger import Decision, PlanStatus
from berth.invariants.facts import BY_MINOR, ENDED, Facts, Seen, dumped


def still_open(facts: Facts) -> Iterator[str]:
    """Decisions and plans that have not come to their end in a quiet world."""
    world = facts.world
    if not world.is_quiet:
        return
    for key, held in sorted(world.ledger.decisions.items()):
        if facts.is_current(held.decision):
            status = world.ledger.plan_status(held.decision.plan)
            yield f"{'/'.join(key)}: decided for {held.decision.node}, not bound (plan {status or 'without an entry'})"
    for reservation in world.reservations:
        held_one = world.ledger.decisions.get(("", reservation.metadata.name))
        if held_one and held_one.decision.uid == reservation.metadata.uid and _is_open(reservation, held_one.decision):
            yield f"reservation {reservation.metadata.name}: decided for {held_one.decision.node}, not placed"
    for plan in sorted(world.ledger.members):
        if world.ledger.plan_status(plan) is PlanStatus.OPEN:
            yield f"plan {plan} is open and has decisions"


def _is_open(reservation: kube.Reservation, decision: Decision) -> bool:
    text = (reservation.metadata.annotations or {}).get(names.ANNOTATION_ATTEMPT, "0")
    is_current = text == str(decision.attempt)
    return is_current and not reservation.status.node_name and reservation.status.phase not in ENDED


def bound_otherwise(facts: Facts) -> Iterator[str]:
    """Bound pods of Berth without a plan, or that differ from their decision."""
    for seen in facts.pods.values():
        if not seen.is_ours or not seen.node:
            continue
        if not seen.plan:
            yield f"{seen.text}: is bound to {seen.node} without a plan"
            continue
        wants = any(amount > 0 and name in BY_MINOR for name, amount in seen.amounts.items())
        if wants and not seen.devices and seen.is_live:
            yield f"{seen.text}: asks for devices and was bound without any"
        held = facts.world.ledger.decisions.get(seen.key)
        if held is not None:
            yield from _compare(seen, held.decision)


def _compare(seen: Seen, decision: Decision) -> Iterator[str]:
    if decision.uid != seen.uid:
        if decision.plan == seen.plan:
            yield f"{seen.text}: uid {seen.uid} is bound by a decision for uid {decision.uid}"
        return
    if decision.plan != seen.plan:
        if decision.attempt >= seen.attempt:
            yield f"{seen.text}: is bound under plan {seen.plan}, a decision of plan {decision.plan} is there as well"
        return
    if decision.node != seen.node:
        yield f"{seen.text}: is bound to {seen.node}, decided was {decision.node}"
    if dumped(decision.allocation.devices) != dumped(seen.devices):
        yield (f"{seen.text}: holds devices {dumped(seen.devices)}, decided were {dumped(decision.allocation.devices)}")
    quota = seen.annotations.get(names.ANNOTATION_QUOTA, "")
    if decision.quota != quota:
        yield f"{seen.text}: is charged to quota {quota or 'none'}, decided was {decision.quota or 'none'}"
    if decision.reservation_uid != seen.reservation:
        decided = decision.reservation_uid or "none"
        yield f"{seen.text}: uses reservation {seen.reservation or 'none'}, decided was {decided}"
