"""Committing a plan: one batch, or stages for a plan too large for one. Outcomes are values.

Follows the solver's part of docs/transaction.md: a refused batch is learned from the leader and solved again, an
unknown one is looked up by its plan entry and never sent twice under one id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from berth.bus.deleting import delete
from berth.bus.errors import BusError
from berth.bus.port import Clock, Committed, LedgerPort, Refused, Unknown, Write
from berth.contracts import subjects
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.contracts.round import Round
from berth.placement_solver.origins import BATCH, Made, Origins
from berth.transaction.batch import MESSAGES_MAX, abort_batch, plan_batch, stages, texts_of
from berth.transaction.batch import Write as PlannedWrite
from berth.transaction.claims import Name
from berth.transaction.ledger_view import LedgerView

LOOK_UP_PAUSE_S = 0.5


class Outcome(NamedTuple):
    """How a plan ended; `behind` was never sent, for `full` LEDGER has no space. `sequence`: follow LEDGER at least
    that far before planning again."""

    status: Literal["committed", "refused", "lost", "behind", "full"]
    sequence: int = 0
    reason: str = ""


class Committer:
    """Writes plans into the ledger. `view` is the follower's: it is read, and learns what the leader has empty."""

    def __init__(
        self,
        ledger: LedgerPort,
        view: LedgerView,
        clock: Clock,
        solver: str,
        *,
        messages_max: int = MESSAGES_MAX,
        origins: Origins | None = None,
    ) -> None:
        """`messages_max`: a plan of more messages is staged. `origins` says what plans are made from; None: that is not
        said."""
        self._ledger = ledger
        self._view = view
        self._clock = clock
        self._solver = solver
        self._messages_max = messages_max
        self._origins = origins

    async def commit(
        self,
        plan: str,
        decisions: Sequence[Decision],
        revisions: Mapping[str, int],
        tidy: Iterable[Name] = (),
        *,
        made: Made = BATCH,
    ) -> Outcome:
        """Commit the plan whole; refused or lost, nothing of it will ever be acted on.

        `made`: how it was made, on the view as it still is.
        """
        origin = self._origins.of(made) if self._origins is not None else None
        outcome = await self._commit(plan, decisions, revisions, tidy, origin)
        if self._origins is not None and origin is not None and outcome.status == "committed":
            self._origins.committed(origin)
        return outcome

    async def _commit(
        self,
        plan: str,
        decisions: Sequence[Decision],
        revisions: Mapping[str, int],
        tidy: Iterable[Name],
        origin: Round | None,
    ) -> Outcome:
        texts = texts_of(decisions)
        parts = stages(decisions, self._messages_max, texts)
        if len(parts) <= 1:
            entry = Plan(
                id=plan, status=PlanStatus.COMMITTED, decisions=len(decisions), solver=self._solver, round=origin
            )
            return await self._send(plan, plan_batch(self._view, entry, decisions, revisions, tidy, texts))
        return await self._staged(plan, parts, revisions, texts, origin)

    async def delete(self, names: Iterable[Name], accounts: Iterable[str] = ()) -> None:
        """Tidying: delete settled decisions and the stamps of accounts that are gone."""
        epoch = self._view.epoch.epoch
        keys = [subjects.decision_key(epoch, namespace, name) for namespace, name in names]
        keys += [subjects.account_key(epoch, account) for account in accounts]
        await delete(self._ledger, [Write(key, None, self._view.expected(key)) for key in keys])

    async def abort(self, plan: str, expected: int | None = None) -> Outcome:
        """Give up an open plan, or decisions without a plan entry (R8); refused when the view shows that it has ended.

        `expected`: sequence of its entry, when the plan is our own.
        """
        writes = abort_batch(self._view, plan, self._solver, expected)
        if not writes:
            return Outcome("refused", reason="the plan has ended meanwhile")
        return await self._send(plan, writes)

    async def _staged(
        self,
        plan: str,
        parts: Sequence[Sequence[Decision]],
        revisions: Mapping[str, int],
        texts: Mapping[Name, bytes],
        origin: Round | None,
    ) -> Outcome:
        epoch = self._view.epoch.epoch
        key = subjects.plan_key(epoch, plan)
        # What every stage expects is settled when the plan is made (R1): what others write while an earlier stage is on
        # its way has to refuse a later one. Only our own writes move it (R8).
        batches = [
            plan_batch(self._view, entry, part, revisions, texts=texts)
            for entry, part in zip(self._entries(plan, parts, origin), parts, strict=True)
        ]
        own: dict[str, int] = {key: 0}
        for number, batch in enumerate(batches, 1):
            if self._view.epoch.epoch != epoch:
                return Outcome("lost", reason="a new epoch has begun")
            writes = [write._replace(expected=own.get(write.key, write.expected)) for write in batch]
            outcome = await self._send(plan, writes)
            if outcome.status != "committed":
                if number > 1:
                    await self.abort(plan, own[key])
                return outcome
            first = outcome.sequence - len(writes) + 1
            own.update((write.key, first + offset) for offset, write in enumerate(writes))
        return Outcome("committed", own[key])

    def _entries(self, plan: str, parts: Sequence[Sequence[Decision]], origin: Round | None) -> Iterator[Plan]:
        """The plan entry of each stage; the last one says what the plan was made from."""
        done = 0
        for number, part in enumerate(parts, 1):
            done += len(part)
            is_last = number == len(parts)
            yield Plan(
                id=plan,
                status=PlanStatus.COMMITTED if is_last else PlanStatus.OPEN,
                stage=number,
                decisions=done,
                solver=self._solver,
                round=origin if is_last else None,
            )

    async def _send(self, plan: str, writes: Sequence[PlannedWrite]) -> Outcome:
        result = await self._ledger.commit([Write(*write) for write in writes])
        if isinstance(result, Committed):
            return Outcome("committed", result.sequence)
        if isinstance(result, Refused) and result.is_full:
            return Outcome("full", reason=f"{result.code} {result.reason}")
        if isinstance(result, Refused):
            newest = await self._learn([write.key for write in writes])
            return Outcome("refused", newest, f"{result.code} {result.reason}")
        return await self._look_up(plan, result, writes)

    async def _look_up(self, plan: str, unknown: Unknown, writes: Sequence[PlannedWrite]) -> Outcome:
        """What became of a batch whose answer was lost: the plan entry says. Asks until the bus answers."""
        while True:
            try:
                stored = await self._ledger.read(writes[-1].key)
            except BusError:
                await self._clock.sleep(LOOK_UP_PAUSE_S)
                continue
            if stored is not None and not stored.deleted and stored.value == writes[-1].value:
                return Outcome("committed", stored.sequence)
            newest = await self._learn([write.key for write in writes])
            return Outcome("lost", newest, unknown.reason)

    async def _learn(self, keys: Sequence[str]) -> int:
        """Ask the leader for these keys and let the view learn which it lacks, or has only a marker of; the newest
        sequence of those that it has."""
        newest = 0
        for start in range(0, len(keys), 64):
            some = keys[start : start + 64]
            expected = [self._view.expected(key) for key in some]
            answers = await asyncio.gather(*map(self._ledger.read, some), return_exceptions=True)
            for key, before, answer in zip(some, expected, answers, strict=True):
                if isinstance(answer, BaseException):
                    continue
                if answer is None:
                    self._view.learn_absent(key, before)
                    continue
                newest = max(newest, answer.sequence)
                if answer.deleted:
                    self._view.learn_marker(key, answer.sequence)
        return newest
