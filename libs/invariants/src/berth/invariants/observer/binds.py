"""Each bind of a pod or a Reservation, at the moment it lands, against what was decided (I4, I5, I12)."""

from __future__ import annotations

from berth.contracts.ledger import Decision
from berth.invariants.decisions import differences
from berth.invariants.facts import read_reservation_uid
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.verdicts import Verdicts
from berth.resources.amounts import Amounts, without_zeros


def judge_bind(pod: Watched, decided: Decided, verdicts: Verdicts) -> Decision | None:
    """A pod or Reservation of Berth has got a node. The decision that it was bound by, if there is one."""
    verdicts.judged("I5")
    if not pod.plan:
        verdicts.add("I5", pod.text, f"{pod.text}: is bound to {pod.node} without a plan")
        return None
    record = decided.by_uid.get(pod.uid, {}).get(pod.plan)
    if record is None:
        verdicts.add("I5", pod.text, f"{pod.text}: {_unknown(pod, decided)}")
        return None
    decision = record.decision
    verdicts.judged("I12")
    verdicts.judged("I4")
    if record.epoch < decided.newest_epoch:
        text = f"is bound in epoch {decided.newest_epoch} by a decision of epoch {record.epoch}, plan {pod.plan}"
        verdicts.add("I12", pod.text, f"{pod.text}: {text}")
    elif not decided.was_committed(pod.plan):
        verdicts.add("I5", pod.text, f"{pod.text}: is bound under plan {pod.plan}, which is not committed")
    if decision.attempt != pod.attempt:
        text = f"is bound at attempt {pod.attempt} by a decision for attempt {decision.attempt}, plan {pod.plan}"
        verdicts.add("I4", pod.text, f"{pod.text}: {text}")
    if decision.node != pod.node:
        verdicts.add("I5", pod.text, f"{pod.text}: is bound to {pod.node}, decided was {decision.node}")
    else:
        for text in differences(decision, pod.devices, pod.annotations, read_reservation_uid(pod.annotations)):
            verdicts.add("I5", pod.text, f"{pod.text}: {text}")
    return decision


def judge_reserved(reservation: Watched, decided: Decided, verdicts: Verdicts) -> Decision | None:
    """A Reservation has got a node: as a pod, and it holds what was decided. A pod holds what it asks for. The decision
    that it was placed by, if there is one."""
    decision = judge_bind(reservation, decided, verdicts)
    if decision is None:
        return None
    held, wanted = without_zeros(reservation.amounts), without_zeros(decision.allocation.amounts)
    if held != wanted:
        text = f"{reservation.text}: holds {_listed(held)}, decided were {_listed(wanted)}"
        verdicts.add("I5", f"{reservation.text}, amounts", text)
    return decision


def judge_change(before: Watched, after: Watched, verdicts: Verdicts) -> None:
    """Another version of the same object: what is bound stays as it is, and nothing is withdrawn twice or too late."""
    verdicts.judged("I4")
    if after.attempt < before.attempt:
        text = f"its attempt goes back from {before.attempt} to {after.attempt}"
        verdicts.add("I4", after.text, f"{after.text}: {text}")
    if not before.node:
        return
    verdicts.judged("I5")
    if after.node != before.node:
        text = f"is bound to {before.node} and then to {after.node or 'nothing'}"
        verdicts.add("I5", after.text, f"{after.text}: {text}")
    if not after.name[0]:
        return  # a Reservation may grow where it is (`growths`), or be kept from it
    if after.plan != before.plan and before.is_ours:
        text = f"was bound under plan {before.plan or 'none'} and is shown under plan {after.plan or 'none'}"
        verdicts.add("I5", after.text, f"{after.text}: {text}")
    if after.attempt > before.attempt:
        verdicts.add("I4", after.text, f"{after.text}: is withdrawn (attempt {after.attempt}) after it was bound")


def _listed(amounts: Amounts) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items())) or "nothing"


def _unknown(pod: Watched, decided: Decided) -> str:
    others = [
        record.decision.uid
        for plans in decided.by_uid.values()
        if (record := plans.get(pod.plan)) is not None and (record.decision.namespace, record.decision.name) == pod.name
    ]
    if others:
        return f"uid {pod.uid} is bound by a decision for uid {others[0]}, plan {pod.plan}"
    return f"is bound to {pod.node} under plan {pod.plan}, which never decided on it"
