"""The wiring of quota-manager: what it reads, decides with and publishes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.quota_question import QuotaQuestion
from berth.contracts.what_if import QuotasIfAnswer, QuotasIfQuestion
from berth.quota_manager.configuration import configured_by
from berth.quota_manager.core import series
from berth.quota_manager.core.hooks.asking import Hooks
from berth.quota_manager.core.hooks.rounds import rules_with
from berth.quota_manager.hooks.calls import HookCalls
from berth.quota_manager.hooks.loading import load_hooks
from berth.quota_manager.reconciler import Reconciler
from berth.quota_manager.settings import SERVICE, Settings
from berth.quota_manager.supposing import problems_of, supposing
from berth.quota_manager.views import EVERYTHING, STAMPS
from berth.runtime import Context, Input, Manager, Moment, Output
from berth.runtime.snapshot import SnapshotFailed, in_snapshot
from berth.telemetry import collected_gauge, counter, gauge, get_logger, histogram

log = get_logger(__name__)

REST = 4.0
"""Rounds of a busy tree are spaced by this many times their length, so that a flood of pods costs a fifth of a core."""
SUPPOSE_S = 10.0
"""A question what would be may take so long."""
TICK_S = 0.5
"""How often time alone is a reason to look: write-backs and alarms that became due."""

GROUPS = gauge("berth_quota_groups", "Quota groups, the built-in ones included.")
PODS = gauge("berth_quota_pods", "Pods that count against a quota group.")
PROBLEMS = gauge("berth_quota_problems", "Things that are wrong with ElasticQuotas and ElasticQuotaProfiles now.")
MISCONFIGURED = gauge(
    "berth_quota_configuration_problems", "Things that are wrong with the scheduler configuration that was read."
)
UNADMITTED = gauge("berth_quota_unadmitted_objects", "ElasticQuotas that admission would have refused.")
OVERUSED = gauge("berth_quota_overused_groups", "Groups that use more than their runtime.")
UNREADABLE = gauge(
    "berth_quota_unreadable_messages", "Messages of STATE and LEDGER that could not be read since the start."
)
PUBLISHED = counter("berth_quota_published_total", "Messages written to QUOTA.", ["what"])
WRITEBACKS = counter("berth_quota_writebacks_total", "Status writes of ElasticQuotas that were requested.")
SETTLING = histogram("berth_quota_settle_seconds", "Time to bring all figures in order.")


class Shell(Manager[Settings, Reconciler]):
    """One replica."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        super().__init__(SERVICE, context, lease_ttl_s=settings.lease_ttl_s)
        calls = HookCalls(settings.quota_hook_timeout_s)
        hooks = Hooks(
            load_hooks(settings.hooks),
            calls.call,
            calls.failed,
            fails_open=settings.quota_hooks_fail_open,
            spent_s=calls.spent_s,
        )
        configured = configured_by(settings)
        for problem in configured.problems:
            log.error("the scheduler configuration cannot be used", field=problem.field, problem=problem.message)
        reconciler = Reconciler(
            rules_with(configured.rules, hooks),
            on_news=lambda: self.changed.mark(EVERYTHING),
            interval_s=settings.writeback_interval_s,
            retry_s=settings.writeback_retry_s,
            grace_s=settings.overuse_grace_s,
            writebacks_per_s=settings.writebacks_per_s,
            started=context.clock.monotonic(),
            admission=settings.admission,
            home=configured.home,
            maxes=configured.maxes,
            configuration=configured.state if settings.scheduler_config_file else "",
            hooks=hooks,
        )
        collected_gauge(
            "scheduler_elastic_quota_spec",
            "What ElasticQuotas say, as Koordinator shows it.",
            series.LABELS,
            lambda: series.spec_rows(reconciler.engine.forest.groups),
        )
        collected_gauge(
            "scheduler_elastic_quota_status",
            "What ElasticQuotas come to, as Koordinator shows it.",
            series.LABELS,
            lambda: series.status_rows(reconciler.engine.forest.groups),
        )
        MISCONFIGURED.set(len(configured.problems))
        self.wire(
            reconciler,
            inputs=[Input(buckets.STATE, reconciler.view), Input(buckets.LEDGER, reconciler.ledger, STAMPS)],
            output=Output(buckets.QUOTA, reconciler.published, PUBLISHED, written="group", deleted="deletion"),
            commands=WRITEBACKS,
            deciding=SETTLING,
            window_s=settings.window_s,
            tick_s=TICK_S,
            rest=REST,
        )

    @property
    def questions(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """See `Replica`."""

        async def groups(payload: bytes) -> bytes:
            return encode(self.reconciler.answer(decode(payload, QuotaQuestion)))

        async def supposed(payload: bytes) -> bytes:
            return encode(await self._suppose(decode(payload, QuotasIfQuestion)))

        return {"quota": groups, "quotasif": supposed}

    async def _suppose(self, question: QuotasIfQuestion) -> QuotasIfAnswer:
        """What the groups would come to, worked out in a copy of this process."""
        reconciler, clock = self.reconciler, self.context.clock
        if not reconciler.is_ready:
            return QuotasIfAnswer(outcome="unready", message=reconciler.missing)
        if problems := problems_of(reconciler, question):
            return QuotasIfAnswer(outcome="refused", problems=problems)
        at = Moment(clock.now(), clock.monotonic())
        try:
            return decode(
                await in_snapshot(lambda: encode(supposing(reconciler, question, at)), SUPPOSE_S), QuotasIfAnswer
            )
        except (SnapshotFailed, OSError) as error:
            return QuotasIfAnswer(outcome="failed", message=f"the copy of quota-manager failed: {error}")

    def on_reset(self) -> None:
        """See `Manager`."""
        self.reconciler.reconsider()
        super().on_reset()

    def measure(self) -> None:
        """See `Manager`."""
        reconciler = self.reconciler
        GROUPS.set(len(reconciler.engine.forest.groups))
        PODS.set(len(reconciler.engine.book))
        PROBLEMS.set(len(reconciler.problems) + len(reconciler.profile_problems))
        UNADMITTED.set(reconciler.slipped.objects)
        OVERUSED.set(reconciler.alarms.over)
        UNREADABLE.set(reconciler.unreadable)


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()
