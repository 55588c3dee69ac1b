"""Bugs of the solver, and of the batches, books and buckets that it works with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from berth.bus import headers as h
from berth.bus import jetstream, ledger
from berth.bus.follower import Follower
from berth.bus.leader_watch import LeaderWatch
from berth.bus.port import Write
from berth.contracts import subjects
from berth.contracts.base import Reason
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, Reservation
from berth.placement_solver import committing
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer, Outcome
from berth.placement_solver.core import borrowing
from berth.placement_solver.core.awaited_quotas import ElasticQuotas
from berth.placement_solver.core.constraints.node_unschedulable import NodeUnschedulable
from berth.placement_solver.core.displacers import placeholders
from berth.placement_solver.core.displacers.operating_pods import Placeholders
from berth.placement_solver.core.inventories import Inventories
from berth.placement_solver.core.queue import Queue, Waiting
from berth.placement_solver.core.quotas import Quotas, limits_anything
from berth.placement_solver.core.take_overs import placing
from berth.placement_solver.core.verify import hand_overs, verifier
from berth.placement_solver.core.verify import reservations as verify_reservations
from berth.placement_solver.core.verify.node import NodeCheck
from berth.placement_solver.readiness import Readiness
from berth.placement_solver.tidying import Tidying
from berth.rules import reservation_fit
from berth.rules.taints import Tolerations
from berth.transaction.book import Book
from berth.transaction.claims import Claim, Name
from berth.transaction.ledger_view import LedgerView

RELEASED_AFTER_MS = 2_500
Planted = AbstractContextManager[object]


def unexpected(family: str) -> Planted:
    """Keys of this family are written whatever was there before."""
    real = ledger._headers

    def headers(write: Write) -> dict[str, str]:
        made = real(write)
        if write.key.split(".")[1:2] == [family]:
            del made[h.EXPECTED]
        return made

    return patch.object(ledger, "_headers", headers)


def restricted_as_aligned() -> Planted:
    """Users of a Restricted Reservation take the rest from the node."""
    stack = ExitStack()
    for module in (reservation_fit, verify_reservations):
        stack.enter_context(patch.object(module, "reservation_lacks", lambda *_, **__: iter(())))
    return stack


def taken_over_again() -> Planted:
    """Who draws on a Reservation is taken over by another one as well."""
    stack = ExitStack()
    stack.enter_context(patch.object(placing, "_is_by_itself", lambda claim: True))
    for module, name in ((verifier, "take_over_problems"), (NodeCheck, "problems")):
        stack.enter_context(patch.object(module, name, lambda *_: []))
    return stack


def handed_over_to_anybody() -> Planted:
    """Whoever waits has any pod leave that says whose placeholder it is."""
    stack = ExitStack()
    for module in (placeholders, hand_overs):
        stack.enter_context(patch.object(module, "why_not_handed_over", lambda *_: ""))
    anybody = lambda self, pod: sorted(self._names.values())  # noqa: E731
    stack.enter_context(patch.object(Placeholders, "may_serve", anybody))
    return stack


def lent_to_anybody() -> Planted:
    """Who is protected may borrow as well."""
    stack = ExitStack()
    for module in (borrowing, verify_reservations):
        stack.enter_context(patch.object(module, "why_not_lent", lambda pod, _: ""))
    return stack


def stages_expect_what_is_read() -> Planted:
    """A later stage is written down when it is sent."""

    async def staged(
        self: Committer,
        plan: str,
        parts: Sequence[Sequence[Decision]],
        revisions: Mapping[str, int],
        texts: Any,
        origin: Any,
    ) -> Outcome:
        outcome = Outcome("lost")
        for number, (entry, part) in enumerate(zip(self._entries(plan, parts, origin), parts, strict=True), 1):
            *writes, last = committing.plan_batch(self._view, entry, part, revisions, texts=texts)
            before = outcome.sequence
            outcome = await self._send(plan, [*writes, last._replace(expected=before)])
            if outcome.status != "committed":
                if number > 1:
                    await self.abort(plan, before)
                return outcome
        return outcome

    return patch.object(Committer, "_staged", staged)


def accounts_first() -> Planted:
    """Accounts stand before the decisions that they were stamped for."""
    real = committing.plan_batch

    def plan_batch(*args: Any, **kwargs: Any) -> list[Any]:
        *writes, entry = real(*args, **kwargs)
        return [*sorted(writes, key=lambda write: ".account." not in write.key), entry]

    return patch.object(committing, "plan_batch", plan_batch)


def deleted_when_bound() -> Planted:
    """A decision is tidied away once its pod is seen bound."""
    real = Book._settles

    def settles(self: Book, decision: Decision, seen: Pod | Reservation | None) -> bool:
        return real(self, decision, seen) or self.is_bound(decision)

    return patch.object(Book, "_settles", settles)


def replaced_by_another_uid() -> Planted:
    """A decision for another uid of the same name is no reason to wait."""
    real = Book.open_decision

    def open_decision(self: Book, name: Name) -> Decision | None:
        found, seen = real(self, name), self.seen(name)
        return None if found is None or seen is None or seen.uid != found.uid else found

    return patch.object(Book, "open_decision", open_decision)


def absent_is_gone() -> Planted:
    """What a view does not show is gone, however late it is."""
    real = Book._settles

    def settles(self: Book, decision: Decision, seen: Any) -> bool:
        return seen is None or seen.uid != decision.uid or real(self, decision, seen)

    return patch.object(Book, "_settles", settles)


def given_up_by_deleting() -> Planted:
    """A plan is given up by dropping its decisions; its entry is left as it is."""

    async def abort(self: Committer, plan: str, expected: int | None = None) -> Outcome:
        await self.delete(sorted(self._view.members.get(plan, ())))
        return Outcome("refused")

    return patch.object(Committer, "abort", abort)


def ended_is_given_up() -> Planted:
    """A plan that was found abandoned is given up whatever has become of it since, expecting what it is now."""
    real = committing.abort_batch

    def abort_batch(view: LedgerView, plan: str, solver: str, expected: int | None = None) -> list[Any]:
        with patch.object(view, "plan_status", lambda plan: None):
            return real(view, plan, solver, expected)

    return patch.object(committing, "abort_batch", abort_batch)


def planned_on_any_view() -> Planted:
    """A new epoch is planned in at once."""

    def may_plan(self: Readiness) -> bool:
        book = self._cluster.book
        return book.ledger.epoch.epoch > 0 and not self._awaited and book.complete["pods"].is_known

    return patch.object(Readiness, "may_plan", may_plan)


def own_group_alone() -> Planted:
    """A pod charges no group above its own."""
    real = Quotas.accounts

    def accounts(self: Quotas, key: tuple[str, str]) -> dict[str, int]:
        own = subjects.quota_account(*key)
        return {account: revision for account, revision in real(self, key).items() if account == own}

    return patch.object(Quotas, "accounts", accounts)


def limited_alone() -> Planted:
    """A group without a limit has no account, and a move is a matter of the group that moves."""
    real = Quotas.accounts

    def accounts(self: Quotas, key: tuple[str, str]) -> dict[str, int]:
        line = [each for each in self.line(key) if each in self.groups and limits_anything(self.groups[each])]
        own = {subjects.quota_account(*each): self.groups[each].revision for each in line}
        return {account: own[account] for account in real(self, key) if account in own}

    return patch.object(Quotas, "accounts", accounts)


def moves_unsaid() -> Planted:
    """A move is a revision of the group that moves alone, and of nothing that it comes to count for."""
    return patch.object(Quotas, "_revision", lambda self, key: self.groups[key].revision)


def joined_uncharged() -> Planted:
    """Who charges a line that a group has joined leaves that group's account as it was."""
    real = Quotas.accounts

    def accounts(self: Quotas, key: tuple[str, str]) -> dict[str, int]:
        with patch.object(self, "_joined", {}):
            return real(self, key)

    return patch.object(Quotas, "accounts", accounts)


def any_stream() -> Planted:
    """The owner of a bucket goes on in whatever stream has its name."""

    async def last(self: Follower) -> int:
        return (await jetstream.stream_info(self._link, self.stream)).state.last_seq

    return patch.object(Follower, "last_of_same", last)


def leader_unwatched() -> Planted:
    """A stream is looked at when its consumer is made, and not again while it delivers."""

    async def run(self: LeaderWatch) -> None:
        await asyncio.Event().wait()

    return patch.object(LeaderWatch, "run", run)


def garbage_is_nothing() -> Planted:
    """What cannot be read takes the place of what was there, and holds nothing."""
    real = LedgerView.apply

    def apply(self: LedgerView, key: str, value: bytes, deleted: bool, sequence: int) -> Any:
        try:
            return real(self, key, value, deleted, sequence)
        except InvalidMessage:
            self.unreadable.clear()
            return real(self, key, b"", True, sequence)

    return patch.object(LedgerView, "apply", apply)


def eras_unread() -> Planted:
    """Nobody heeds the era of a bucket's owner."""
    return patch.object(h, "era_of", lambda raw: b"")


def quotas_unread() -> Planted:
    """Nobody waits for QUOTA to show the groups of ElasticQuotas."""
    stack = ExitStack()
    stack.enter_context(patch.object(ElasticQuotas, "are_in", lambda self, knows, now: True))
    stack.enter_context(patch.object(ElasticQuotas, "wait_of", lambda self, name, named_at, named_version: None))
    return stack


def no_revisions() -> Planted:
    """Nobody compares the revision that an account names with their own."""
    return patch.object(Readiness, "is_behind", lambda self, revisions: False)


def released_on_a_timer() -> Planted:
    """A decision that is not bound after a while frees capacity for others."""
    real = Tidying.tidy

    async def tidy(self: Tidying) -> None:
        book, now_ms = self.cluster.book, self.cluster.now_ms
        late = [
            name
            for name, held in book.ledger.decisions.items()
            if now_ms - held.decision.decided_ms > RELEASED_AFTER_MS and not book.is_bound(held.decision)
        ]
        await self._committer.delete(late)
        await real(self)

    return patch.object(Tidying, "tidy", tidy)


def terminating_holds_nothing() -> Planted:
    """A pod with a deletion timestamp holds no capacity, although its containers still run."""
    real = Book._work_out

    def work_out(self: Book, name: Name, *more: Any) -> tuple[Claim, ...]:
        seen = self.seen(name)
        return () if seen is not None and getattr(seen, "deleting", False) else real(self, name, *more)

    read_pod = ClusterView._read_pod

    def read(self: ClusterView, rest: str, value: bytes, deleted: bool, trace: str | None) -> None:
        read_pod(self, rest, value, deleted, trace)
        self.capacity_came_back |= not deleted and decode(value, Pod).deleting

    stack = ExitStack()
    stack.enter_context(patch.object(Book, "_work_out", work_out))
    stack.enter_context(patch.object(ClusterView, "_read_pod", read))
    return stack


def cordons_unread() -> Planted:
    """A node that is marked unschedulable is as good as any other."""
    real = Tolerations.admit

    def admit(self: Tolerations, taints: Sequence[Any], *, unschedulable: bool) -> bool:
        return real(self, taints, unschedulable=False)

    stack = ExitStack()
    stack.enter_context(patch.object(Tolerations, "admit", admit))
    stack.enter_context(patch.object(NodeUnschedulable, "prefilter", lambda self, spec: None))
    return stack


def never_retried() -> Planted:
    """What was refused once is not tried again, whatever comes back."""

    def refuse(self: Queue, waiting: Waiting, reasons: tuple[Reason, ...], now: float) -> None:
        waiting.ready = waiting.held = False
        waiting.reasons = reasons
        waiting.retry_at = float("inf")

    stack = ExitStack()
    stack.enter_context(patch.object(Queue, "refuse", refuse))
    for name in ("wake", "wake_classes", "_try_next"):
        stack.enter_context(patch.object(Queue, name, lambda *_, **__: None))
    return stack


def standby_forgets_updates() -> Planted:
    """A solver passes over updates that show other solvers' pods bound: they are not its own."""
    real = ClusterView._read_pod

    def read_pod(self: ClusterView, rest: str, value: bytes, deleted: bool, trace: str | None) -> None:
        if not deleted:
            pod = decode(value, Pod)
            seen = self.book.pods.get((pod.namespace, pod.name))
            is_news = seen is not None and seen.uid == pod.uid and not seen.node and pod.node
            if is_news and pod.phase in ("Pending", "Running") and not self.is_mine(pod.uid):
                self.book.complete["pods"].seen(pod.version)
                return
        real(self, rest, value, deleted, trace)

    return patch.object(ClusterView, "_read_pod", read_pod)


def inventories_as_they_come() -> Planted:
    """An inventory counts, however old it is."""
    return patch.object(Inventories, "of", lambda self, node: self._published.get(node))
