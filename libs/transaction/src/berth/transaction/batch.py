"""Batches: a plan as messages of LEDGER, in the order and with the expectations that the rules ask for.

R1: every message carries the expected last sequence of its key. R2: decisions, then accounts, then the plan entry.
R8: every write of a plan entry expects the one before. One batch holds at most `MESSAGES_MAX` messages; a larger plan
is staged: it stays `open` until its last stage, and its decisions hold their capacity from the stage that wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import AccountStamp, Decision, Plan, PlanStatus
from berth.transaction.claims import Name
from berth.transaction.ledger_view import LedgerView

MESSAGES_MAX = 1000
"""Most messages in one atomic batch of the server."""
BATCH_BYTES_MAX = 16 << 20
"""Most bytes that we put into one batch; a larger plan is staged."""
NO_TEXTS: Final[Mapping[Name, bytes]] = {}


class Write(NamedTuple):
    """One message of a batch; a value of None deletes the key, leaving a marker."""

    key: str
    value: bytes | None
    expected: int


def texts_of(decisions: Iterable[Decision]) -> dict[Name, bytes]:
    """What is written of each decision of a plan."""
    return {(decision.namespace, decision.name): encode(decision) for decision in decisions}


def plan_batch(
    view: LedgerView,
    plan: Plan,
    decisions: Iterable[Decision],
    revisions: Mapping[str, int],
    tidy: Iterable[Name] = (),
    texts: Mapping[Name, bytes] = NO_TEXTS,
) -> list[Write]:
    """The messages that commit (a stage of) a plan.

    Args:
        view: the ledger as known; gives the expected sequences and the epoch.
        plan: the plan entry to write last.
        decisions: one per pod, each name at most once.
        revisions: account -> newest QUOTA or RESERVATION revision that was used on it; 0 or absent for nodes.
        tidy: names whose keys are deleted along, none of them decided in this batch: settled decisions, and
            nominations that give way (E2).
        texts: what `texts_of` says of these decisions; one that is not there is encoded here.
    """
    epoch = view.epoch.epoch
    writes: list[Write] = []
    accounts: dict[str, None] = {}
    for decision in decisions:
        key = subjects.decision_key(epoch, decision.namespace, decision.name)
        text = texts.get((decision.namespace, decision.name)) or encode(decision)
        writes.append(Write(key, text, view.expected(key)))
        for account in decision.accounts:
            accounts[account] = None
    for namespace, name in tidy:
        key = subjects.decision_key(epoch, namespace, name)
        writes.append(Write(key, None, view.expected(key)))
    for account in accounts:
        stamp = AccountStamp(plan=plan.id, revision=max(revisions.get(account, 0), _stamped(view, account)))
        key = subjects.account_key(epoch, account)
        writes.append(Write(key, encode(stamp), view.expected(key)))
    key = subjects.plan_key(epoch, plan.id)
    writes.append(Write(key, encode(plan), view.expected(key)))
    return writes


def abort_batch(view: LedgerView, plan_id: str, solver: str, expected: int | None = None) -> list[Write]:
    """Give up an open plan, or decisions that have no plan entry: the entry says so (R8).

    Empty when the view shows that the plan has ended: committed and aborted are its last words. Judged here, where the
    expected sequence is taken, since a plan may end between the moment it is found abandoned and this one.

    Args:
        view: the ledger as known.
        plan_id: the plan to give up.
        solver: who gives it up.
        expected: sequence of the plan's open entry, for its own solver, whose view may not have read it yet.
    """
    if view.plan_status(plan_id) not in (None, PlanStatus.OPEN):
        return []
    key = subjects.plan_key(view.epoch.epoch, plan_id)
    entry = Plan(id=plan_id, status=PlanStatus.ABORTED, solver=solver)
    return [Write(key, encode(entry), view.expected(key) if expected is None else expected)]


def stages(
    decisions: Sequence[Decision], messages_max: int = MESSAGES_MAX, texts: Mapping[Name, bytes] = NO_TEXTS
) -> list[list[Decision]]:
    """Cut decisions into runs that fit one batch each, accounts and plan entry included, keeping their order.

    `texts` as in `plan_batch`.
    """
    result: list[list[Decision]] = []
    run: list[Decision] = []
    accounts: set[str] = set()
    size = 0
    for decision in decisions:
        text = texts.get((decision.namespace, decision.name)) or encode(decision)
        more = len(set(decision.accounts) - accounts)
        grown_size = size + len(text) + 256 * (1 + len(decision.accounts))
        if run and (len(run) + 1 + len(accounts) + more + 1 > messages_max or grown_size > BATCH_BYTES_MAX):
            result.append(run)
            run, accounts, grown_size = [], set(), len(text)
        run.append(decision)
        accounts.update(decision.accounts)
        size = grown_size
    if run:
        result.append(run)
    return result


def _stamped(view: LedgerView, account: str) -> int:
    stamp = view.stamps.get(account)
    return stamp.revision if stamp else 0
