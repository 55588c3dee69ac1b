"""The shell of the placement solver: followers in, rounds on, questions answered. No decisions.

STATE, INVENTORY, QUOTA, RESERVATION and LEDGER come in through one sink each, which feeds the view message by
message. One loop makes rounds while something is ready. Every solver keeps a lease of its own, by which the others
learn that it is alive and take their share of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from berth.bus.port import Entry
from berth.contracts import buckets, subjects
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.gang_question import GangQuestion
from berth.contracts.prices import PricesQuestion
from berth.contracts.question import NodeQuestion, WhyQuestion
from berth.contracts.round import Ground
from berth.contracts.what_if import WhatIfQuestion
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.config_file import follow_file, read_file
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.estimating import Estimating
from berth.placement_solver.gang_picture import gangs_seen
from berth.placement_solver.gang_reports import GangReports
from berth.placement_solver.members import FAMILY, Members
from berth.placement_solver.node_picture import picture
from berth.placement_solver.optimiser import JointSolver, Optimiser
from berth.placement_solver.origins import Origins
from berth.placement_solver.pacing import explain_for_ever, rounds_for_ever, tidy_for_ever
from berth.placement_solver.price_tables import PriceTables
from berth.placement_solver.reading import NODE_METRICS, Following
from berth.placement_solver.rounds import Rounds
from berth.placement_solver.scatter_reports import ScatterReports
from berth.placement_solver.settings import Settings
from berth.placement_solver.views import ViewSink
from berth.placement_solver.what_if.asking import WhatIf
from berth.placement_solver.what_if.running import Limits
from berth.placement_solver.why import answer
from berth.runtime import Context, serve_status
from berth.runtime.snapshot import in_snapshot

SERVICE = "placement-solver"
MEMBER_TTL_S = 6


async def main(ctx: Context[Settings], make_optimiser: Callable[[], JointSolver] = Optimiser) -> None:
    """Run until cancelled."""
    settings = ctx.settings
    file = Path(settings.scheduler_config_file) if settings.scheduler_config_file else None
    cluster = ClusterView(
        settings.scheduler_names,
        ctx.instance,
        config_map=settings.config_map(),
        is_configured=file is not None,
        class_rows_bytes_max=settings.class_rows_bytes_max,
        handed_off=frozenset(settings.hand_off),
        prices_from=settings.prices_from,
    )
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
        report_after_s=settings.report_after_s,
        batch_messages_max=settings.batch_messages_max,
        optimiser=optimiser,
        optimiser_budget_s=settings.optimiser_budget_s,
        bounds=settings.bounds,
        preempts=settings.preemption,
        origins=Origins(cluster, ctx.clock, _ground(settings)) if settings.tell_origins else None,
    )
    prices = PriceTables(cluster, ctx.clock)
    members = Members(ctx.instance, ctx.clock, MEMBER_TTL_S)
    cluster.configuration.on_change = lambda: _tell_of_configuration(ctx, cluster)
    cluster.on_npu_templates = lambda: _tell_of_npu_templates(ctx, cluster)
    if file is not None:
        read_file(cluster, file)
        ctx.spawn(follow_file(ctx, cluster, file, rounds.changed.set), name="configuration")
    _follow(ctx, cluster, rounds, members)
    _follow_prices(ctx, prices)
    ctx.health.add("views", lambda: _views(cluster, rounds))
    ctx.spawn(bus.lease(subjects.key(FAMILY, ctx.instance), ctx.instance, ttl_s=MEMBER_TTL_S).run(), name="membership")
    limits = Limits(settings.batch_pods_max, settings.batch_messages_max, settings.preemption)
    what_if = WhatIf(cluster, verifier, rounds.readiness, ctx.clock, ctx.random, limits)
    estimating = Estimating(cluster, rounds.readiness, ctx.clock, settings.estimates_every_s, in_snapshot)
    if settings.estimates_every_s:
        ctx.spawn(estimating.run(), name="estimates")
    await _answer(ctx, cluster, rounds, what_if, prices, estimating)
    reports = (
        GangReports(cluster, bus.commands(), ctx.clock),
        ScatterReports(cluster, bus.events(), ctx.clock),
        prices,
    )
    ctx.spawn(explain_for_ever(ctx, rounds), name="explain")
    ctx.spawn(tidy_for_ever(ctx, rounds, members, reports, optimiser), name="tidy")
    try:
        await rounds_for_ever(ctx, rounds)
    finally:
        await rounds.stop()
        if optimiser is not None:
            await optimiser.stop()


def _ground(settings: Settings) -> Ground:
    return Ground(
        id="",
        schedulers=sorted(settings.scheduler_names),
        hand_off=sorted(settings.hand_off),
        config_map=settings.scheduler_config_map,
        preempts=settings.preemption,
    )


def _tell_of_configuration(ctx: Context[Settings], cluster: ClusterView) -> None:
    is_wrong = bool(cluster.configuration.problems or cluster.configuration.idle)
    say = ctx.log.warning if is_wrong else ctx.log.info
    problems = [f"{each.field}: {each.message}" for each in cluster.configuration.problems[:8]]
    say("configuration of the scheduler", state=cluster.configuration.state, problems=problems)


def _tell_of_npu_templates(ctx: Context[Settings], cluster: ClusterView) -> None:
    found = cluster.facts.npu_templates.problems
    say = ctx.log.warning if found else ctx.log.info
    say("sizes of virtual NPUs", problems=[f"{each.field}: {each.message}" for each in found[:8]])


def _views(cluster: ClusterView, rounds: Rounds) -> tuple[bool, str]:
    if rounds.readiness.may_plan():
        return True, "; ".join(filter(None, ("complete", cluster.configuration.idle)))
    if not cluster.configuration.is_known:
        return False, f"waiting for the configuration of the scheduler: {cluster.configuration.state}"
    return False, "still reading"


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

        def applies(entry: Entry) -> None:
            # Leases live for seconds: what is read of them was stored just now.
            cluster.loads.tell_time(entry.stored_s, is_present=bucket == buckets.LEASE)
            apply(entry)

        def ends() -> None:
            end()
            rounds.readiness.read_to_end(bucket)

        return ViewSink(bucket, applies, starts_over, ends, wake, ctx.log.warning, cluster.reading.of(bucket))

    def follow(name: str, bucket: str, each: ViewSink, keys: str) -> None:
        rounds.readiness.starts_over(name)
        follower = ctx.bus.follow(bucket, each, keys=keys)
        if bucket != buckets.LEASE:
            cluster.reading.follow(lambda: follower.created)
        ctx.spawn(follower.run(), name=f"follow {name}")

    def read_state(entry: Entry) -> None:
        rounds.tell_time()  # a pod's age counts from when it is read
        cluster.read(buckets.STATE, entry)

    sinks = {
        buckets.STATE: sink(
            buckets.STATE,
            read_state,
            cluster.reset_state,
            cluster.end_of_state,
        ),
        buckets.INVENTORY: sink(
            buckets.INVENTORY,
            lambda e: cluster.read(buckets.INVENTORY, e),
            cluster.reset_inventory,
        ),
        buckets.QUOTA: sink(buckets.QUOTA, lambda e: cluster.read(buckets.QUOTA, e), cluster.reset_quota),
        buckets.RESERVATION: sink(
            buckets.RESERVATION, lambda e: cluster.read(buckets.RESERVATION, e), cluster.reset_reserved
        ),
        buckets.SLO: sink(buckets.SLO, lambda e: cluster.read(buckets.SLO, e), cluster.reset_offers),
        buckets.LEDGER: sink(
            buckets.LEDGER,
            lambda e: cluster.read(buckets.LEDGER, e),
            cluster.reset_ledger,
        ),
        # Who is alive is looked at now and then: a renewal is no reason to wake up.
        buckets.LEASE: sink(buckets.LEASE, lambda e: members.seen(e.key, e.deleted), members.reset, wake=nothing),
    }
    keys = {buckets.LEASE: f"{FAMILY}.>", buckets.SLO: "offer.>"}
    for bucket, each in sinks.items():
        follow(bucket, bucket, each, keys.get(bucket, ">"))

    def wake_if_eased() -> None:
        if cluster.has_news:
            rounds.changed.set()

    reports = {
        buckets.METRICS: sink(
            buckets.METRICS,
            lambda e: cluster.read(buckets.METRICS, e),
            lambda: cluster.reset_reports(agents=True),
            rounds.changed.set,
            wake_if_eased,
        ),
        NODE_METRICS: sink(
            NODE_METRICS,
            lambda e: cluster.read(NODE_METRICS, e),
            lambda: cluster.reset_reports(agents=False),
            rounds.changed.set,
            wake_if_eased,
        ),
    }

    def follow_reports() -> None:
        """Once a profile looks at what nodes use: every node reports every few seconds."""
        if not cluster.looks_at_load:
            return
        for name, keys_of in ((buckets.METRICS, ">"), (NODE_METRICS, "nodemetric.>")):
            each = reports.pop(name, None)
            if each is not None:
                follow(name, buckets.STATE if name == NODE_METRICS else name, each, keys_of)

    cluster.on_profiles = follow_reports
    follow_reports()


def _follow_prices(ctx: Context[Settings], prices: PriceTables) -> None:
    """The tables of all solvers, of which this one's is its own."""

    def nothing() -> None:
        pass

    sink = ViewSink(buckets.PRICE, prices.apply, prices.reset, prices.end, nothing, ctx.log.warning, Following())
    prices.bucket = ctx.bus.owned(
        buckets.PRICE, keys="prices.*", sink=sink, on_reset=prices.again, on_conflict=prices.again
    )
    ctx.spawn(prices.bucket.ready(), name=f"read {buckets.PRICE}")


def _told(problems: Sequence[Problem]) -> str:
    """The first of them, for people."""
    if not problems:
        return "ok"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"{problems[0].field}: {problems[0].message}{more}"[:500]


async def _answer(
    ctx: Context[Settings],
    cluster: ClusterView,
    rounds: Rounds,
    what_if: WhatIf,
    prices: PriceTables,
    estimating: Estimating,
) -> None:
    async def why(payload: bytes) -> bytes:
        question = decode(payload, WhyQuestion)
        await rounds.explaining.tell_of((question.namespace, question.name))
        return encode(estimating.beside(answer(cluster, question)))

    async def node(payload: bytes) -> bytes:
        return encode(picture(cluster, decode(payload, NodeQuestion).name))

    async def gang(payload: bytes) -> bytes:
        return encode(gangs_seen(cluster, decode(payload, GangQuestion)))

    async def supposed(payload: bytes) -> bytes:
        return encode(await what_if.answer(decode(payload, WhatIfQuestion)))

    async def asked_prices(payload: bytes) -> bytes:
        decode(payload, PricesQuestion)
        return encode(prices.answer())

    def facts() -> dict[str, str | int | float]:
        return {
            "profiles": cluster.configuration.state,  # first: what is wrong with them must not be cut off
            "waiting": len(cluster.queue),
            "nodes": int(np.count_nonzero(cluster.nodes.alive)),
            "judged_batch": rounds.bounding.words,
            "epoch": cluster.book.ledger.epoch.epoch,
            "solvers": len(cluster.solvers),
            "classes": sum(1 for _ in cluster.classes),
            "unreadable": len(cluster.book.ledger.unreadable),
            "ledger_full": int(rounds.back_off.is_full),
            "profiles_of_others": ", ".join(cluster.configuration.foreign),
            "configurations_refused": cluster.configuration.broken,
            "npu_templates": _told(cluster.facts.npu_templates.problems),
            "reports_refused": cluster.loads.reports.refused,
            "judged_batch_gap": rounds.bounding.gap,
            "batches": rounds.bounding.tally,
            "prices": cluster.prices.source,
            "price_maker": cluster.prices.last.name,
        }

    others = {"why": why, "node": node, "gang": gang, "whatif": supposed, "prices": asked_prices}
    await serve_status(ctx, facts, ready=rounds.readiness.may_plan, others=others)
