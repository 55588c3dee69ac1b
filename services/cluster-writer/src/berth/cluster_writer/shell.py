"""The shell of cluster-writer: STATE and LEDGER in, binds and patches out, under a Kubernetes Lease. No decisions."""

from __future__ import annotations

import asyncio

from berth.bus.port import BusPort
from berth.cluster_writer.bind_executor import BindExecutor
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.commands import Commands
from berth.cluster_writer.endings import Endings
from berth.cluster_writer.epochs import Epochs
from berth.cluster_writer.event_publisher import EventPublisher
from berth.cluster_writer.eviction_executor import EvictionExecutor
from berth.cluster_writer.eviction_publisher import EvictionPublisher
from berth.cluster_writer.node_evictions import NodeEvictions
from berth.cluster_writer.outbox import BUSY_ABOVE, Outbox
from berth.cluster_writer.settings import Settings
from berth.cluster_writer.turns import LOOK_AHEAD
from berth.cluster_writer.views import LedgerSink, StateSink
from berth.cluster_writer.wave_runner import WaveRunner
from berth.contracts import buckets, subjects
from berth.kube.lease import KubeLease
from berth.runtime import Context, serve_status

SERVICE = "cluster-writer"
FORGET_EVERY_S = 5.0
DURABLE = "cluster-writer"


async def main(ctx: Context[Settings]) -> None:
    """Run until cancelled."""
    settings, bus = ctx.settings, ctx.bus
    await bus.ensure()
    api = await ctx.kube(settings.kube())
    open_binds: list[BindExecutor] = []
    outbox = Outbox(
        api,
        ctx.clock,
        ctx.random,
        ctx.instance,
        per_second=settings.events_per_s,
        is_busy=lambda: any(bind_executor.under_way() > BUSY_ABOVE for bind_executor in open_binds),
    )
    event_publisher = EventPublisher(bus.events(), outbox, ctx.clock)
    cluster = ClusterView(event_publisher.bound, event_publisher.ended)
    holder = f"{ctx.instance}-{ctx.random.getrandbits(48):012x}"
    lease = KubeLease(
        api,
        settings.lease_namespace,
        settings.lease_name,
        holder,
        clock=ctx.clock,
        rng=ctx.random,
        on_change=lambda held: wave_runner.lease_changed(),
    )
    epochs = Epochs(bus, api, lease, ctx.clock, ctx.random, settings.scheduler_names)
    bind_executor = BindExecutor(
        cluster,
        api,
        ctx.clock,
        ctx.random,
        concurrency=settings.bind_connections,
        volume_timeout_s=settings.volume_timeout_s,
        vendors=frozenset(settings.hand_off),
        on_loss=lambda reason: _suspect(wave_runner, reason),
        on_withdrawn=event_publisher.withdrawn,
        on_landed=event_publisher.landed,
    )
    open_binds.append(bind_executor)
    eviction_publisher = EvictionPublisher(bus.events(), outbox)
    evictions = EvictionExecutor(cluster, api, bus.ledger(), lease, ctx.clock, ctx.random, eviction_publisher)
    node_evictions = NodeEvictions(api, ctx.clock, eviction_publisher)
    commands = Commands(
        cluster,
        api,
        outbox,
        ctx.clock,
        node_evictions,
        webhook_url=settings.webhook_url,
        is_busy=lambda: bind_executor.under_way() > 0,
    )
    wave_runner = WaveRunner(
        cluster, bus.ledger(), lease, bind_executor, evictions, epochs, ctx.clock, on_raised=event_publisher.raised
    )
    ctx.health.add(
        "views", lambda: (wave_runner.state_ready.is_set() and wave_runner.ledger_ready.is_set(), "read to the end")
    )
    ctx.spawn(
        bus.follow(buckets.STATE, StateSink(cluster, bind_executor, evictions, wave_runner, ctx.log)).run(),
        name="follow STATE",
    )
    ledger = bus.follow(buckets.LEDGER, LedgerSink(cluster, wave_runner, ctx.log), keys=subjects.COUNTED)
    ctx.spawn(ledger.run(), name="follow LEDGER")
    callers = [
        ctx.spawn(lease.run(), name="lease"),
        ctx.spawn(bind_executor.run(), name="binds"),
        ctx.spawn(evictions.run(lambda: wave_runner.is_acting), name="evictions"),
        ctx.spawn(outbox.run(), name="events"),
        ctx.spawn(_commands(ctx, bus, lease, commands), name="commands"),
    ]
    ctx.spawn(_forget(ctx, wave_runner), name="forget")
    ctx.spawn(Endings(bus, cluster.placements, ctx.clock).run(wave_runner.state_ready), name="endings")
    try:
        await _answer(ctx, wave_runner, bind_executor, cluster, event_publisher)
        await wave_runner.run()
    finally:
        # What may still send something ends before the Lease is given back and the connections are closed.
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        await lease.release()
        await api.close()


def _suspect(wave_runner: WaveRunner, reason: str) -> None:
    wave_runner.suspected_loss = reason
    wave_runner.wake.set()


async def _commands(ctx: Context[Settings], bus: BusPort, lease: KubeLease, commands: Commands) -> None:
    """Take commands while the Lease is ours: a standby must not work off the queue."""
    while True:
        while not lease.active:
            await ctx.clock.sleep(0.5)
        queue = bus.consume(DURABLE, commands.handle, subjects=f"{subjects.PREFIX}.cmd.>", concurrency=LOOK_AHEAD)
        consumer = asyncio.create_task(queue.run())
        try:
            while lease.active and not consumer.done():
                await ctx.clock.sleep(0.5)
        finally:
            consumer.cancel()
            await asyncio.wait([consumer])
        if not consumer.cancelled() and consumer.exception() is not None:
            raise RuntimeError("the consumer of commands failed") from consumer.exception()


async def _forget(ctx: Context[Settings], wave_runner: WaveRunner) -> None:
    while True:
        await ctx.clock.sleep(FORGET_EVERY_S)
        await wave_runner.forget_plans()


async def _answer(
    ctx: Context[Settings],
    wave_runner: WaveRunner,
    bind_executor: BindExecutor,
    cluster: ClusterView,
    event_publisher: EventPublisher,
) -> None:
    def facts() -> dict[str, str | int | float]:
        view = cluster.book.ledger
        return {
            "epoch": view.epoch.epoch,
            "open_binds": len(bind_executor),
            "decisions": len(view.decisions),
            "plans": len(view.plans),
            "unreadable": len(view.unreadable),
            "pods": len(cluster.book.pods),
            "bound": event_publisher.pods_bound,
        }

    await serve_status(
        ctx,
        facts,
        active=lambda: wave_runner.is_acting,
        ready=lambda: wave_runner.state_ready.is_set() and wave_runner.ledger_ready.is_set(),
    )
