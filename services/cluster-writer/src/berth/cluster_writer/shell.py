"""The shell of cluster-writer: STATE and LEDGER in, binds and patches out, under a Kubernetes Lease. No decisions."""

from __future__ import annotations

import asyncio
from typing import Any

from berth.bus.port import BusPort, Entry
from berth.cluster_writer import metrics
from berth.cluster_writer.acting import Acting
from berth.cluster_writer.binds import Binds
from berth.cluster_writer.commands import PATIENCE_S, Commands
from berth.cluster_writer.endings import Endings
from berth.cluster_writer.epochs import Epochs
from berth.cluster_writer.outbox import BUSY_ABOVE, Outbox
from berth.cluster_writer.picture import Picture
from berth.cluster_writer.settings import Settings
from berth.cluster_writer.telling import Telling
from berth.contracts import buckets, subjects
from berth.contracts.codec import encode
from berth.contracts.errors import Broken
from berth.contracts.question import StatusAnswer
from berth.kube.lease import KubeLease
from berth.runtime.context import Context

SERVICE = "cluster-writer"
FORGET_EVERY_S = 5.0
DURABLE = "cluster-writer"
PARKED_EVERY = 64
"""Under load the end of STATE is not reached for a while: look at what waits for the view every so many messages."""


class StateSink:
    """STATE into the picture."""

    def __init__(self, picture: Picture, binds: Binds, acting: Acting, log: Any) -> None:
        self._picture, self._binds, self._acting, self._log = picture, binds, acting, log

    def reset(self) -> None:
        """STATE starts over."""
        self._picture.reset_state()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            name = self._picture.read_state(entry.key, entry.value, deleted=entry.deleted, gap=entry.gap)
        except (Broken, ValueError) as error:
            metrics.BROKEN_MESSAGES.labels(buckets.STATE).inc()
            self._log.warning("a message cannot be read and is left out", key=entry.key, error=str(error))
            return
        if name is not None:
            self._binds.moved(name)
        if self._binds.has_parked() and entry.sequence % PARKED_EVERY == 0:
            self._binds.moved(None)

    def end(self, sequence: int) -> None:
        """The end was reached."""
        self._picture.end_of_state()
        self._binds.at_end()
        self._acting.state_ready.set()
        self._acting.wake.set()


class LedgerSink:
    """LEDGER into the picture."""

    def __init__(self, picture: Picture, acting: Acting, log: Any) -> None:
        self._picture, self._acting, self._log = picture, acting, log

    def reset(self) -> None:
        """LEDGER starts over: what it held has to be compared with the Lease again."""
        self._picture.book.reset_ledger()
        self._acting.check_again()

    def apply(self, entry: Entry) -> None:
        """The next message."""
        try:
            plan = self._picture.read_ledger(entry.key, entry.value, entry.deleted, entry.sequence)
            if plan:
                self._acting.plan_read(plan)
        except (Broken, ValueError) as error:
            metrics.BROKEN_MESSAGES.labels(buckets.LEDGER).inc()
            self._log.warning("a message cannot be read and is left out", key=entry.key, error=str(error))
        self._acting.wake.set()

    def end(self, sequence: int) -> None:
        """The end was reached."""
        self._acting.ledger_ready.set()
        self._acting.wake.set()


async def main(ctx: Context[Settings]) -> None:
    """Run until cancelled."""
    settings, bus = ctx.settings, ctx.bus
    await bus.ensure()
    api = await ctx.kube(settings.kube())
    open_binds: list[Binds] = []
    outbox = Outbox(
        api,
        ctx.clock,
        ctx.random,
        ctx.instance,
        per_second=settings.events_per_s,
        is_busy=lambda: any(binds.under_way() > BUSY_ABOVE for binds in open_binds),
    )
    telling = Telling(bus.events(), outbox, ctx.clock)
    picture = Picture(telling.bound, telling.ended)
    holder = f"{ctx.instance}-{ctx.random.getrandbits(48):012x}"
    lease = KubeLease(
        api,
        settings.lease_namespace,
        settings.lease_name,
        holder,
        clock=ctx.clock,
        rng=ctx.random,
        on_change=lambda held: acting.lease_changed(),
    )
    epochs = Epochs(bus, api, lease, ctx.clock, ctx.random, settings.scheduler_names)
    binds = Binds(
        picture,
        api,
        ctx.clock,
        ctx.random,
        concurrency=settings.bind_connections,
        on_loss=lambda reason: _suspect(acting, reason),
        on_withdrawn=telling.withdrawn,
        on_landed=telling.landed,
    )
    open_binds.append(binds)
    acting = Acting(picture, bus.ledger(), lease, binds, epochs, ctx.clock, on_raised=telling.raised)
    ctx.health.add("views", lambda: (acting.state_ready.is_set() and acting.ledger_ready.is_set(), "read to the end"))
    ctx.spawn(bus.follow(buckets.STATE, StateSink(picture, binds, acting, ctx.log)).run(), name="follow STATE")
    ledger = bus.follow(buckets.LEDGER, LedgerSink(picture, acting, ctx.log), keys=subjects.DECISIONS_AND_PLANS)
    ctx.spawn(ledger.run(), name="follow LEDGER")
    callers = [
        ctx.spawn(lease.run(), name="lease"),
        ctx.spawn(binds.run(), name="binds"),
        ctx.spawn(outbox.run(), name="events"),
        ctx.spawn(_commands(ctx, bus, lease, Commands(picture, api, outbox, ctx.clock)), name="commands"),
    ]
    ctx.spawn(_forget(ctx, acting), name="forget")
    ctx.spawn(Endings(bus, picture.placements, ctx.clock).run(acting.state_ready), name="endings")
    try:
        await _answer(ctx, acting, binds, picture, telling)
        await acting.run()
    finally:
        # Whoever may still send something ends before the Lease is given back and the connections are closed.
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        await lease.release()
        await api.close()


def _suspect(acting: Acting, reason: str) -> None:
    acting.suspected_loss = reason
    acting.wake.set()


async def _commands(ctx: Context[Settings], bus: BusPort, lease: KubeLease, commands: Commands) -> None:
    """Take commands while the Lease is ours: a standby must not work off the queue."""
    while True:
        while not lease.active:
            await ctx.clock.sleep(0.5)
        queue = bus.consume(
            DURABLE, commands.handle, subjects=f"{subjects.PREFIX}.cmd.>", concurrency=16, patience_s=PATIENCE_S
        )
        consumer = asyncio.create_task(queue.run())
        try:
            while lease.active and not consumer.done():
                await ctx.clock.sleep(0.5)
        finally:
            consumer.cancel()
            await asyncio.wait([consumer])
        if not consumer.cancelled() and consumer.exception() is not None:
            raise RuntimeError("the consumer of commands failed") from consumer.exception()


async def _forget(ctx: Context[Settings], acting: Acting) -> None:
    while True:
        await ctx.clock.sleep(FORGET_EVERY_S)
        await acting.forget_plans()


async def _answer(ctx: Context[Settings], acting: Acting, binds: Binds, picture: Picture, telling: Telling) -> None:
    async def status(_: bytes) -> bytes:
        view = picture.book.ledger
        return encode(
            StatusAnswer(
                service=ctx.service,
                instance=ctx.instance,
                active=acting.is_acting,
                ready=acting.state_ready.is_set() and acting.ledger_ready.is_set(),
                facts={
                    "epoch": view.epoch.epoch,
                    "open_binds": len(binds),
                    "decisions": len(view.decisions),
                    "plans": len(view.plans),
                    "pods": len(picture.book.pods),
                    "bound": telling.pods_bound,
                },
            )
        )

    await ctx.bus.serve(SERVICE, "0.1.0", {"status": status})
