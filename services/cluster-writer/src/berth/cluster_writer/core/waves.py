"""Which committed plans have not been begun yet, oldest first, and whether the Lease and LEDGER agree."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from berth.contracts import subjects
from berth.contracts.ledger import PlanStatus
from berth.transaction.ledger_view import LedgerView


def to_begin(view: LedgerView, fresh: Iterable[str]) -> list[str]:
    """Those of the fresh plans that are committed (R7) and hold decisions, in the order of the ledger."""
    found = [
        (_sequence(view, plan), plan)
        for plan in fresh
        if plan in view.members and view.plan_status(plan) is PlanStatus.COMMITTED
    ]
    return [plan for _, plan in sorted(found)]


def to_record(view: LedgerView, recorded: str, plans: list[str]) -> str:
    """The newest of these plans and the one that the Lease names already."""
    known = [plan for plan in [*plans, recorded] if plan]
    return max(known, key=lambda plan: (_sequence(view, plan), plan), default="")


def loss(view: LedgerView, epoch: int | None, plan: str) -> str:
    """Why the ledger must have lost something, judged by what the Lease remembers; empty when the two agree."""
    if epoch is None:
        return "the Lease names no epoch yet"
    if view.epoch.epoch != epoch:
        return f"the ledger is in epoch {view.epoch.epoch}, the Lease in {epoch}"
    if plan and view.plan_status(plan) is not PlanStatus.COMMITTED:
        return f"the ledger does not hold plan {plan}, which the Lease names, as committed"
    return ""


def unreadable(view: LedgerView) -> str:
    """Which entries of the epoch cannot be read, so that nobody knows what they hold (R15); empty when all can."""
    if not view.unreadable:
        return ""
    keys = ", ".join(islice(view.unreadable, 3))
    return f"the ledger holds {len(view.unreadable)} entries that cannot be read: {keys}"


def plans_to_forget(view: LedgerView, recorded: str) -> list[str]:
    """Plan entries without decisions: they may be deleted. Never the one that the Lease names, nor a newer one, which
    a wave may be about to write there."""
    newest = _sequence(view, recorded) if recorded in view.plans else 0
    return [plan for plan in view.plans if plan not in view.members and _sequence(view, plan) < newest]


def _sequence(view: LedgerView, plan: str) -> int:
    return view.expected(subjects.plan_key(view.epoch.epoch, plan))
