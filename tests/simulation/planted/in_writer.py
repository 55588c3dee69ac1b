"""Bugs of cluster-writer, and of the consumer that brings it its commands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from berth.bus import consumer
from berth.bus.port import Entry, Stored, Write
from berth.cluster_writer import bind_executor, bind_requests, views, wave_runner
from berth.cluster_writer.bind_executor import BindExecutor
from berth.cluster_writer.bind_requests import BindRequests
from berth.cluster_writer.core import gangs, judge, steps
from berth.cluster_writer.core.answers import Next, after_bind
from berth.cluster_writer.core.placements import Placements
from berth.cluster_writer.core.progress import Outcome, Progress
from berth.cluster_writer.epochs import Epochs
from berth.cluster_writer.wave_runner import WaveRunner
from berth.contracts import subjects
from berth.contracts.ledger import Decision, PlanStatus
from berth.kube import bodies
from berth.kube.answer import Answer
from berth.kube.lease import Outcome as LeaseOutcome
from berth.placement_solver import event_publisher
from berth.transaction.book import Book
from berth.transaction.ledger_view import LedgerView

Planted = AbstractContextManager[object]


@contextmanager
def together(*plants: Planted) -> Iterator[None]:
    """Several patches that make one bug."""
    with ExitStack() as stack:
        for each in plants:
            stack.enter_context(each)
        yield


def half_of_what_was_reserved() -> Planted:
    """A Reservation is bound with half its amounts."""
    real = bind_requests.format_amounts
    return patch.object(
        bind_requests, "format_amounts", lambda amounts: real({name: half // 2 for name, half in amounts.items()})
    )


def taken_over_unnoted() -> Planted:
    """A Reservation is there before those whom it takes over note it."""
    return patch.object(steps, "note_step", lambda *_: Outcome(Progress.DONE))


def reserved_on_another_node() -> Planted:
    """A Reservation is bound to the first node that it was not decided for."""
    real = BindRequests._send_reservation

    async def send(self: BindRequests, decision: Decision, version: int) -> Any:
        others = sorted(self._cluster.nodes.keys() - {decision.node})
        return await real(self, msgspec.structs.replace(decision, node=others[0]) if others else decision, version)

    return patch.object(BindRequests, "_send_reservation", send)


def _binding_without(*fields: str) -> Planted:
    real = bodies.binding

    def binding(*args: Any, **kwargs: Any) -> dict[str, Any]:
        body = real(*args, **kwargs)
        for field in fields:
            del body["metadata"][field]
        return body

    return patch.object(bodies, "binding", binding)


def bind_without_version() -> Planted:
    """A bind names the uid alone."""
    return _binding_without("resourceVersion")


def bind_by_name() -> Planted:
    """A decision is judged, and bound, by the name of its pod."""
    real = bind_executor.judge

    def by_name(decision: Decision, book: Book, *args: Any, **kwargs: Any) -> Any:
        seen = book.seen((decision.namespace, decision.name))
        meant = decision if seen is None else msgspec.structs.replace(decision, uid=seen.uid)
        return real(meant, book, *args, **kwargs)

    return together(patch.object(bind_executor, "judge", by_name), _binding_without("uid"))


def no_answer_is_failure() -> Planted:
    """A bind without an answer has failed: its decision is dropped at once."""
    began = WaveRunner.__init__

    def init(
        self: WaveRunner, cluster: Any, ledger: Any, lease: Any, made: BindExecutor, *args: Any, **kwargs: Any
    ) -> None:
        began(self, cluster, ledger, lease, made, *args, **kwargs)
        made.ledger_of_test = ledger  # type: ignore[attr-defined]

    async def bind(self: BindExecutor, decision: Decision, version: int) -> Next:
        answer = await self._requests.send(decision, version)
        following = after_bind(answer)
        if following is Next.REPEAT:
            view = self._cluster.book.ledger
            key = subjects.decision_key(view.epoch.epoch, decision.namespace, decision.name)
            await self.ledger_of_test.commit([Write(key, None, view.expected(key))])  # type: ignore[attr-defined]
            return Next.DONE
        return following

    return together(patch.object(WaveRunner, "__init__", init), patch.object(BindExecutor, "_bind", bind))


def a_page_is_a_refusal() -> Planted:
    """Whoever answers 400 is taken for the API server."""

    def repeat(self: Answer) -> bool:
        return self.unknown or self.status in (401, 403, 408, 425, 429)

    return patch.object(Answer, "repeat", property(repeat))


def notes_left() -> Planted:
    """A bind writes what was decided, and leaves what else somebody has noted."""
    return patch.object(bind_requests, "written_over", lambda decided, _: dict(decided))


def _acts_on(*statuses: PlanStatus | None) -> Planted:
    """Plans of these statuses are begun like committed ones; the Lease still names committed ones only."""
    to_begin, to_record, judged = wave_runner.to_begin, wave_runner.to_record, bind_executor.judge

    def begins(view: LedgerView, fresh: Iterable[str]) -> list[str]:
        early = [plan for plan in view.members if view.plan_status(plan) in statuses]
        return [*to_begin(view, fresh), *sorted(early)]

    def records(view: LedgerView, recorded: str, plans: list[str]) -> str:
        return to_record(view, recorded, [plan for plan in plans if view.plan_status(plan) is PlanStatus.COMMITTED])

    def judges(decision: Decision, book: Book, *args: Any, **kwargs: Any) -> Any:
        if book.ledger.plan_status(decision.plan) not in statuses:
            return judged(decision, book, *args, **kwargs)
        with patch.object(book.ledger, "plan_status", lambda plan: PlanStatus.COMMITTED):
            return judged(decision, book, *args, **kwargs)

    return together(
        patch.object(wave_runner, "to_begin", begins),
        patch.object(wave_runner, "to_record", records),
        patch.object(bind_executor, "judge", judges),
    )


def begun_before_the_last_word() -> Planted:
    """A decision counts as soon as it is read."""
    return _acts_on(PlanStatus.OPEN, None)


def open_gang_begun() -> Planted:
    """A gang is as large as what has been read of it, and a stage is as good as a plan."""
    return together(_acts_on(PlanStatus.OPEN), gangs_as_they_come())


def gangs_as_they_come() -> Planted:
    """Members of a strict gang are begun one by one."""
    return patch.object(wave_runner, "check_plan", lambda *_, **__: gangs.GO)


def _compares(real: Any) -> Any:
    async def compare(self: WaveRunner) -> None:
        self.comparing = True  # type: ignore[attr-defined]
        try:
            await real(self)
        finally:
            self.comparing = False  # type: ignore[attr-defined]

    return compare


def _silent_leader() -> Planted:
    """Before a wave nobody asks the leader, nor after a reconnect; a start or a take-over still compares."""
    says = WaveRunner._leader_says

    async def leader_says(self: WaveRunner, epoch: int | None, plans: Any) -> str:
        return await says(self, epoch, plans) if getattr(self, "comparing", False) else ""

    def reset(self: views.LedgerSink) -> None:
        self._cluster.book.reset_ledger()

    async def has_read_newest_plan(self: WaveRunner) -> bool:
        return True

    return together(
        patch.object(WaveRunner, "_compare", _compares(WaveRunner._compare)),
        patch.object(WaveRunner, "_leader_says", leader_says),
        patch.object(WaveRunner, "_has_read_newest_plan", has_read_newest_plan),
        patch.object(views.LedgerSink, "reset", reset),
    )


def leader_not_asked() -> Planted:
    """A plan goes into the Lease without a look at the leader."""
    return _silent_leader()


def nothing_recorded() -> Planted:
    """The Lease says who acts, and remembers nothing: no loss is noticed."""
    real = WaveRunner._compare

    async def compare(self: WaveRunner) -> None:
        record = self._lease.record
        if record is None or record.epoch is None:
            await real(self)
        self.suspected_loss = ""
        self._is_checked = True

    async def record(self: WaveRunner, plans: Any) -> bool:
        return await self._lease.renew() is LeaseOutcome.DONE

    return together(
        _silent_leader(), patch.object(WaveRunner, "_compare", compare), patch.object(WaveRunner, "_record", record)
    )


def older_taken_for_done() -> Planted:
    """Who takes the Lease over takes plans before the one that it names for carried out."""
    real = WaveRunner.check_again

    def check_again(self: WaveRunner) -> None:
        real(self)
        plans, record = self._cluster.book.ledger.plans, self._lease.record
        newest = plans.get(record.plan) if record is not None else None
        if newest is not None:
            self._fresh = {plan for plan in self._fresh if plans[plan].sequence > newest.sequence}

    return patch.object(WaveRunner, "check_again", check_again)


def follower_read_trusted() -> Planted:
    """The leader is asked in vain: another replica answers, which still holds what the leader has lost."""
    kept: dict[str, Stored] = {}
    applied, read = views.LedgerSink.apply, WaveRunner._read

    def apply(self: views.LedgerSink, entry: Entry) -> None:
        if not entry.deleted:
            kept[entry.key] = Stored(entry.sequence, entry.value, False)
        applied(self, entry)

    async def reads(self: WaveRunner, key: str) -> Stored | None:
        found = await read(self, key)
        if found is None or found.deleted:
            return kept.get(key, found)
        kept[key] = found
        return found

    return together(patch.object(views.LedgerSink, "apply", apply), patch.object(WaveRunner, "_read", reads))


def no_last_check() -> Planted:
    """A decision is bound whoever else holds its capacity."""
    return patch.object(judge, "clash", lambda *args: None)


def judged_on_any_view() -> Planted:
    """A decision is judged, and a clash believed, on a view that still shows a former holder."""
    judged, checked = bind_executor.judge, gangs._check_gang

    def judges(decision: Decision, *args: Any, **kwargs: Any) -> Any:
        return judged(msgspec.structs.replace(decision, basis=0, other_basis=0), *args, **kwargs)

    def checks(name: str, members: list[Decision], *args: Any) -> Any:
        return checked(name, [msgspec.structs.replace(member, basis=0, other_basis=0) for member in members], *args)

    return together(
        patch.object(bind_executor, "judge", judges),
        patch.object(gangs, "_check_gang", checks),
        patch.object(BindExecutor, "_is_doubted", lambda self, key: False),
    )


def no_fence() -> Planted:
    """A new epoch begins without raising the attempt of pods that are not bound yet."""

    async def fence_all(self: Epochs) -> None:
        pass

    return patch.object(Epochs, "_fence_all", fence_all)


def acked_before_effect() -> Planted:
    """A message is acknowledged when it is taken, not when it has had its effect; refusals are not soon repeated."""

    async def handle(self: consumer.Consumer, held: Any) -> str:
        await self._settle(held, b"+ACK")
        with contextlib.suppress(Exception):
            await self._handler(held.message)
        return "handled"

    return together(
        patch.object(consumer.Consumer, "_handle", handle),
        patch.object(event_publisher, "REPEAT_FIRST_S", event_publisher.REPEAT_MAX_S),
    )


def ended_because_the_view_begins_anew() -> Planted:
    """What is not read yet is taken for gone: the end of the view is not waited for."""
    real = Placements.reset

    def reset(self: Placements) -> None:
        real(self)
        self.end({}, 1 << 62)

    return patch.object(Placements, "reset", reset)
