"""The shell of the placement solver: followers in, rounds on, questions answered. No decisions.

STATE, INVENTORY, QUOTA, RESERVATION and LEDGER come in through one sink each, which feeds the view message by
message. One loop makes rounds while something is ready. Every solver keeps a lease of its own, by which the others
learn that it is alive and take their share of the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from berth.bus.port import BusPort, Entry
from berth.contracts import buckets, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.question import StatusAnswer, WhyQuestion
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.gang_reports import GangReports
from berth.placement_solver.members import FAMILY, Members
from berth.placement_solver.optimiser import JointSolver, Optimiser
from berth.placement_solver.rounds import WAKE_EVERY_S, Rounds
from berth.placement_solver.settings import Settings
from berth.placement_solver.why import answer
from berth.runtime.context import Context

SERVICE = "placement-solver"
TIDY_EVERY_S = 1.0
TIDY_BUSY_S = 2.0
"""While pods wait for their turn, what only tidies gives way to them for so long."""
MEMBER_TTL_S = 6
IDLE_S = 1.0
GAP_PER_ROUND = 2.0
GAP_MAX_S = 0.25
"""Pause after a round while less than a full batch waits: this many times what it took. A round takes long where the
machine or the bus is busy, and there fewer and larger plans help."""


class ViewSink:
    """Feeds one bucket into the view; a message that cannot be read is counted and left out."""

    def __init__(
        self,
        bucket: str,
        apply: Callable[[Entry], None],
        reset: Callable[[], None],
        end: Callable[[], None],
        wake: Callable[[], None],
        log: Callable[..., object],
    ) -> None:
        self._bucket = bucket
        self._apply = apply
        self._reset = reset
        self._end = end
        self._wake = wake
        self._log = log
        self._ended_at: int | None = None

    def reset(self) -> None:
        """The bucket starts over."""
        self._ended_at = None
        self._reset()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            self._apply(entry)
        except (InvalidMessage, ValueError) as error:
            metrics.BROKEN_MESSAGES.labels(self._bucket).inc()
            self._log("a message cannot be read and is left out", bucket=self._bucket, key=entry.key, error=str(error))
        self._wake()

    def end(self, sequence: int) -> None:
        """The end was reached; repeated while nothing comes, which is no news."""
        if sequence != self._ended_at:
            self._ended_at = sequence
            self._end()
            self._wake()


async def main(ctx: Context[Settings], make_optimiser: Callable[[], JointSolver] = Optimiser) -> None:
    """Run until cancelled."""
    settings = ctx.settings
    cluster = ClusterView(settings.scheduler_names, ctx.instance)
    verifier = Verifier(cluster)
    bus = ctx.bus
    await bus.ensure()
    optimiser = make_optimiser() if settings.optimiser_budget_s > 0 else None
    rounds = Rounds(
        cluster,
        verifier,
        bus.ledger(),
        bus.events(),
        bus.commands(),
        ctx.clock,
        ctx.random,
        batch_pods_max=settings.batch_pods_max,
        tell_after_s=settings.tell_after_s,
        batch_messages_max=settings.batch_messages_max,
        optimiser=optimiser,
        optimiser_budget_s=settings.optimiser_budget_s,
    )
    members = Members(ctx.instance, ctx.clock, MEMBER_TTL_S)
    _follow(ctx, cluster, rounds, members)
    ctx.health.add(
        "views", lambda: (rounds.readiness.may_plan(), "complete" if rounds.readiness.may_plan() else "still reading")
    )
    ctx.spawn(bus.lease(subjects.key(FAMILY, ctx.instance), ctx.instance, ttl_s=MEMBER_TTL_S).run(), name="membership")
    await _answer(bus, ctx, cluster, rounds)
    reports = GangReports(cluster, bus.commands(), ctx.clock)
    ctx.spawn(_tidy(ctx, rounds, members, reports, optimiser), name="tidy")
    try:
        await _rounds(ctx, rounds)
    finally:
        await rounds.stop()
        if optimiser is not None:
            await optimiser.stop()


def _follow(ctx: Context[Settings], cluster: ClusterView, rounds: Rounds, members: Members) -> None:
    def nothing() -> None:
        pass

    def sink(
        bucket: str,
        apply: Callable[[Entry], None],
        reset: Callable[[], None],
        end: Callable[[], None] = nothing,
        wake: Callable[[], None] = rounds.changed.set,
    ) -> ViewSink:
        def starts_over() -> None:
            rounds.readiness.starts_over(bucket)
            reset()

        def ends() -> None:
            end()
            rounds.readiness.read_to_end(bucket)

        return ViewSink(bucket, apply, starts_over, ends, wake, ctx.log.warning)

    def read_state(entry: Entry) -> None:
        rounds.tell_time()  # a pod's age counts from when it is read
        cluster.read_state(entry.key, entry.value, deleted=entry.deleted, gap=entry.gap, trace=entry.traceparent)

    sinks = {
        buckets.STATE: sink(
            buckets.STATE,
            read_state,
            cluster.reset_state,
            cluster.end_of_state,
        ),
        buckets.INVENTORY: sink(
            buckets.INVENTORY,
            lambda e: cluster.read_inventory(e.key, e.value, e.deleted),
            cluster.reset_inventory,
        ),
        buckets.QUOTA: sink(
            buckets.QUOTA, lambda e: cluster.read_quota(e.key, e.value, e.deleted), cluster.reset_quota
        ),
        buckets.RESERVATION: sink(
            buckets.RESERVATION, lambda e: cluster.read_reserved(e.key, e.value, e.deleted), cluster.reset_reserved
        ),
        buckets.LEDGER: sink(
            buckets.LEDGER,
            lambda e: cluster.read_ledger(e.key, e.value, e.deleted, e.sequence),
            cluster.reset_ledger,
        ),
        # Who is alive is looked at now and then: a renewal is no reason to wake up.
        buckets.LEASE: sink(buckets.LEASE, lambda e: members.seen(e.key, e.deleted), members.reset, wake=nothing),
    }
    keys = {buckets.LEASE: f"{FAMILY}.>"}
    for bucket, each in sinks.items():
        rounds.readiness.starts_over(bucket)
        ctx.spawn(ctx.bus.follow(bucket, each, keys=keys.get(bucket, ">")).run(), name=f"follow {bucket}")


async def _rounds(ctx: Context[Settings], rounds: Rounds) -> None:
    """Rounds for ever. A batch closes after a short window when the one before is a while ago, else after the gap."""
    cluster = rounds.cluster
    window_s = ctx.settings.batch_window_s
    next_at = 0.0
    while True:
        rounds.tick()
        if not rounds.readiness.may_plan() or not rounds.has_work():
            rounds.changed.clear()
            pause = IDLE_S
            if rounds.readiness.may_plan():
                pause = min(pause, max(0.0, cluster.queue.next_retry() - cluster.now))
            if cluster.capacity_came_back or cluster.quota_changed:
                pause = min(pause, WAKE_EVERY_S)
            try:
                async with asyncio.timeout(pause or 0.001):
                    await rounds.changed.wait()
            except TimeoutError:
                continue
            if window_s:
                await ctx.clock.sleep(window_s)
            continue
        # Every plan costs the bus a wait for the disk and the writer a wave: under load they are fewer and larger.
        rest_s = next_at - ctx.clock.monotonic()
        if rest_s > 0 and cluster.queue.ready_about() < ctx.settings.batch_pods_max:
            await ctx.clock.sleep(rest_s)
        began = ctx.clock.monotonic()
        await rounds.round()
        took_s = ctx.clock.monotonic() - began
        next_at = began + took_s + min(max(ctx.settings.batch_gap_s, GAP_PER_ROUND * took_s), GAP_MAX_S)
        metrics.WAITING.set(len(cluster.queue))
        # Followers share this loop: let them run between rounds even when the queue never empties.
        await asyncio.sleep(0)


async def _tidy(
    ctx: Context[Settings], rounds: Rounds, members: Members, reports: GangReports, optimiser: JointSolver | None
) -> None:
    cluster = rounds.cluster
    tidied_at = float("-inf")
    while True:
        await ctx.clock.sleep(TIDY_EVERY_S)
        alive = members.alive()
        if alive != cluster.solvers:
            ctx.log.info("solvers alive", solvers=list(alive))
            cluster.resharded(alive)
            rounds.changed.set()
        metrics.NODES.set(int(np.count_nonzero(cluster.nodes.alive)))
        if optimiser is not None and cluster.gangs.gangs:
            # Once: one that does not come up is tried again when a batch asks for it.
            optimiser.warm_up()
            optimiser = None
        now = ctx.clock.monotonic()
        if rounds.is_idle() or now - tidied_at >= TIDY_BUSY_S:
            tidied_at = now
            await rounds.tidy()
        if rounds.readiness.may_plan():
            await reports.tell()


async def _answer(bus: BusPort, ctx: Context[Settings], cluster: ClusterView, rounds: Rounds) -> None:
    async def why(payload: bytes) -> bytes:
        return encode(answer(cluster, decode(payload, WhyQuestion)))

    async def status(_: bytes) -> bytes:
        return encode(
            StatusAnswer(
                service=ctx.service,
                instance=ctx.instance,
                active=True,
                ready=rounds.readiness.may_plan(),
                facts={
                    "waiting": len(cluster.queue),
                    "nodes": int(np.count_nonzero(cluster.nodes.alive)),
                    "epoch": cluster.book.ledger.epoch.epoch,
                    "solvers": len(cluster.solvers),
                    "classes": sum(1 for _ in cluster.classes),
                    "unreadable": len(cluster.book.ledger.unreadable),
                    "ledger_full": int(rounds.back_off.is_full),
                },
            )
        )

    await bus.serve(SERVICE, "0.1.0", {"why": why, "status": status})
