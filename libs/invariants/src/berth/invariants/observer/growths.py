"""Reservations that are placed and come to hold more: by a decision that follows the plan they are under, and no more
than that says (I30c)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.ledger import Decision
from berth.invariants.observer.decided import Decided, Record
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.reservation_resize import growth, growth_asked

PROMISE: Final = "I30c"


def judge_growth(before: Watched, after: Watched, decided: Decided, verdicts: Verdicts) -> None:
    """Another version of a Reservation of Berth that had its node already."""
    if not before.node or not before.is_ours or not before.plan:
        return
    records = decided.by_uid.get(after.uid, {})
    if after.attempt > before.attempt and not _may_grow(before, after, records):
        text = f"is withdrawn (attempt {after.attempt}) after it was bound"
        verdicts.add("I4", after.text, f"{after.text}: {text}")
    if after.plan != before.plan:
        verdicts.judged(PROMISE)
        record = records.get(after.plan)
        if record is None or record.decision.grows != before.plan:
            text = f"was bound under plan {before.plan} and is shown under plan {after.plan or 'none'}"
            verdicts.add("I5", after.text, f"{after.text}: {text}")
            return
        less = growth(after.amounts, record.decision.allocation.amounts)
        if less:
            text = f"shows plan {after.plan} and holds less {', '.join(sorted(less))} than that says"
            verdicts.add(PROMISE, after.text, f"{after.text}: {text}")
    more = growth(before.amounts, after.amounts)
    if not more:
        return
    verdicts.judged(PROMISE)
    following = [each for each in records.values() if each.decision.grows and each.decision.grows == before.plan]
    if not any(_covers(each, after, decided) for each in following):
        text = f"comes to hold more {', '.join(sorted(more))}, and no decision says so"
        verdicts.add(PROMISE, after.text, f"{after.text}: {text}")


def _may_grow(before: Watched, after: Watched, records: Mapping[str, Record]) -> bool:
    """Whether a growth may have been withdrawn: one was decided, or is asked for, of which the ledger may have been
    lost."""
    is_decided = any(each.decision.grows for each in records.values())
    return is_decided or any(growth_asked(each.annotations, each.amounts) for each in (before, after))


def _covers(record: Record, after: Watched, decided: Decided) -> bool:
    """Whether the Reservation may hold what it shows by this decision."""
    decision = record.decision
    is_in_force = record.epoch >= decided.newest_epoch and decided.was_committed(decision.plan)
    return is_in_force and decision.node == after.node and not growth(decision.allocation.amounts, after.amounts)


def is_carried_out(decision: Decision, following: Decision | None, seen: Watched | None) -> bool:
    """Whether a decision on a Reservation gives way to the one that grows it, since the object shows its plan."""
    if following is None or seen is None or not following.grows:
        return False
    is_same = (following.uid, following.node) == (decision.uid, decision.node) == (seen.uid, seen.node)
    return is_same and following.grows == decision.plan == seen.plan
