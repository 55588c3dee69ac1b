"""Decisions: none is lost, none is carried out for another pod than its own or in another way than it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from berth.contracts import kube, names
from berth.contracts.grants import DEVICE_KINDS, granted
from berth.contracts.ledger import Decision, Grant, Loan, PlanStatus
from berth.invariants.facts import BY_MINOR, ENDED, Facts, Seen, amounts_of, dumped, read_loans
from berth.invariants.report import Finding
from berth.rules.devices.kubelet_counts import counts_shown
from berth.rules.records.registry import QUOTA


def still_open(facts: Facts) -> Iterator[Finding]:
    """Decisions and plans that have not come to their end in a quiet world."""
    world = facts.world
    if not world.is_quiet:
        return
    for key, held in sorted(world.ledger.decisions.items()):
        if facts.is_current(held.decision):
            name, node = "/".join(key), held.decision.node
            status = world.ledger.plan_status(held.decision.plan) or "without an entry"
            what = "nominated to" if held.decision.nominates else "decided for"
            yield Finding(name, f"{name}: {what} {node}, not bound (plan {status})")
    for reservation in world.reservations:
        held_one = world.ledger.decisions.get(("", reservation.metadata.name))
        if held_one and held_one.decision.uid == reservation.metadata.uid and _is_open(reservation, held_one.decision):
            subject = f"reservation {reservation.metadata.name}"
            yield Finding(subject, f"{subject}: decided for {held_one.decision.node}, not placed")
    for plan in sorted(world.ledger.members):
        if world.ledger.plan_status(plan) is PlanStatus.OPEN:
            yield Finding(f"plan {plan}", f"plan {plan} is open and has decisions")


def _is_open(reservation: kube.Reservation, decision: Decision) -> bool:
    text = (reservation.metadata.annotations or {}).get(names.ANNOTATION_ATTEMPT, "0")
    is_current = text == str(decision.attempt)
    is_placed = bool(reservation.status.node_name)
    if decision.grows:
        is_placed = (reservation.metadata.annotations or {}).get(names.ANNOTATION_PLAN, "") == decision.plan
    return is_current and not is_placed and reservation.status.phase not in ENDED


def bound_otherwise(facts: Facts) -> Iterator[Finding]:
    """Bound pods of Berth without a plan, or that differ from their decision."""
    for seen in facts.pods.values():
        if not seen.is_ours or not seen.node:
            continue
        for text in _wrong(seen, facts):
            yield Finding(seen.text, f"{seen.text}: {text}")


def _wrong(seen: Seen, facts: Facts) -> Iterator[str]:
    if not seen.plan:
        yield f"is bound to {seen.node} without a plan"
        return
    wants = any(amount > 0 and name in BY_MINOR for name, amount in seen.amounts.items())
    has_some = any(each.kind in DEVICE_KINDS for each in seen.devices)
    if wants and not has_some and seen.is_live and not _counted(seen, facts):
        yield "asks for devices and was bound without any"
    held = facts.world.ledger.decisions.get(seen.key)
    if held is not None:
        yield from _compare(seen, held.decision, facts)


def _counted(seen: Seen, facts: Facts) -> bool:
    """Whether kubelet picks its cards, so that it holds a number of them."""
    node = next((each for each in facts.world.nodes if each.metadata.name == seen.node), None)
    if node is None:
        return False
    return any(seen.amounts.get(name, 0) > 0 for name in counts_shown(amounts_of(node.status.allocatable)))


def _compare(seen: Seen, decision: Decision, facts: Facts) -> Iterator[str]:
    if decision.uid != seen.uid:
        if decision.plan == seen.plan:
            yield f"uid {seen.uid} is bound by a decision for uid {decision.uid}"
    elif decision.plan != seen.plan:
        if decision.attempt >= seen.attempt:
            yield f"is bound under plan {seen.plan}, a decision of plan {decision.plan} is there as well"
    else:
        if decision.node != seen.node:
            yield f"is bound to {seen.node}, decided was {decision.node}"
        yield from differences(decision, seen.devices, seen.annotations, _reserved(seen, decision, facts))


def _reserved(seen: Seen, decision: Decision, facts: Facts) -> str:
    """The Reservation that it uses; that of its decision, where another Reservation took it over later, by the steps of
    that one's own decision. What the Reservation says now proves nothing: it may be edited once it has its node."""
    noted = seen.reservation
    if not noted or decision.reservation_uid:
        return noted
    if (noted, seen.uid) in facts.taken_over:
        return ""
    taker = next((each for each in facts.world.reservations if each.metadata.uid == noted), None)
    # Without its decision nobody can tell any more, and a note that a withdrawn decision has left counts for nothing.
    is_over = taker is None or taker.status.phase in ENDED or not taker.status.node_name
    return "" if is_over else noted


def differences(
    decision: Decision, devices: list[Grant], annotations: Mapping[str, str], reservation_uid: str
) -> Iterator[str]:
    """What a bound pod was given and charged otherwise than decided."""
    given, decided = dumped(devices), dumped(granted(decision.allocation))
    if given != decided:
        yield f"holds {given}, decided were {decided}"
    quota = annotations.get(names.ANNOTATION_QUOTA, "")
    if decision.quota != quota:
        yield f"is charged to quota {quota or 'none'}, decided was {decision.quota or 'none'}"
    surcharge = QUOTA.read_surcharge(annotations)
    if decision.surcharge != surcharge:
        yield f"is charged {surcharge or 'nothing'} beyond its request, decided was {decision.surcharge or 'nothing'}"
    if decision.reservation_uid != reservation_uid:
        yield f"uses reservation {reservation_uid or 'none'}, decided was {decision.reservation_uid or 'none'}"
    loans = read_loans(annotations)
    if decision.loans != loans:
        yield f"borrows of {_lenders(loans)}, decided was of {_lenders(decision.loans)}"


def _lenders(loans: Iterable[Loan]) -> str:
    return ", ".join(f"{each.reservation} {dict(sorted(each.amounts.items()))}" for each in loans) or "nobody"
