"""When a solver begins a round, and when it tidies up: a window that closes when nothing more comes, and a gap that
grows with the load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from berth.placement_solver import metrics
from berth.placement_solver.members import Members
from berth.placement_solver.optimiser import JointSolver
from berth.placement_solver.rounds import WAKE_EVERY_S, Rounds
from berth.placement_solver.settings import Settings
from berth.runtime import Context
from berth.runtime.process import collections_put_off

TIDY_EVERY_S = 1.0
TIDY_BUSY_S = 2.0
"""While pods wait for their turn, what only tidies gives way to them for so long."""
IDLE_S = 1.0
QUIET_S = 0.001
"""A batch closes when nothing has come for so long: what comes together is read within less."""
GAP_PER_ROUND = 2.0
GAP_MAX_S = 0.25
"""Pause after a round while less than a full batch waits: this many times what it took. A round takes long where the
machine or the bus is busy, and there fewer and larger plans help."""
GAP_PER_POD_S = 0.002
"""No pause is longer than this for each pod of the round: who comes alone is not followed by many, and where cores are
not free cluster-watcher has gathered already those who come together."""

PAUSE_PER_LOOK = 9.0
PAUSE_MIN_S = 0.002
PAUSE_MAX_S = 1.0
"""While something is ready to be decided, words are made for a tenth of the time."""


async def rounds_for_ever(ctx: Context[Settings], rounds: Rounds) -> None:
    """Round after round. A batch closes when nothing more comes, or its window ends, where nobody waited before; else
    after the gap."""
    cluster = rounds.cluster
    next_at = 0.0
    while True:
        rounds.tick()
        await rounds.revoke()
        await rounds.grow()
        if not rounds.readiness.may_plan() or not rounds.has_work():
            rounds.changed.clear()
            pause = IDLE_S
            if rounds.readiness.may_plan():
                pause = min(pause, max(0.0, cluster.queue.next_retry() - cluster.now))
            if cluster.has_news:
                pause = min(pause, WAKE_EVERY_S)
            try:
                async with asyncio.timeout(pause or 0.001):
                    await rounds.changed.wait()
            except TimeoutError:
                continue
            await _gathered(ctx, rounds)
            continue
        # Every plan costs the bus a wait for the disk and the writer a wave: under load they are fewer and larger.
        rest_s = next_at - ctx.clock.monotonic()
        if rest_s > 0 and cluster.queue.ready_about() < ctx.settings.batch_pods_max:
            await ctx.clock.sleep(rest_s)
        began, pods = ctx.clock.monotonic(), cluster.queue.ready_about()
        with collections_put_off():
            await rounds.round()
        took_s = ctx.clock.monotonic() - began
        next_at = began + took_s + gap_s(took_s, pods, ctx.settings.batch_gap_s)
        metrics.WAITING.set(len(cluster.queue))
        # Followers share this loop: let them run between rounds even when the queue never empties.
        await asyncio.sleep(0)


def gap_s(took_s: float, pods: int, usual_s: float) -> float:
    """The pause after a round that took so long and found so many pods, while less than a full batch waits."""
    return min(max(usual_s, GAP_PER_ROUND * took_s), GAP_PER_POD_S * pods, GAP_MAX_S)


async def _gathered(ctx: Context[Settings], rounds: Rounds) -> None:
    """Something has come where nobody waited: return once nothing more does, or the window ends."""
    queue, clock = rounds.cluster.queue, ctx.clock
    ends_at = clock.monotonic() + ctx.settings.batch_window_s
    before = 0
    while (rest_s := ends_at - clock.monotonic()) > 0:
        ready = queue.ready_about()
        if ready and ready == before:
            return
        before = ready
        if ready:
            await clock.sleep(min(QUIET_S, rest_s))
            continue
        # It was nobody that may be decided, as with a pod that is bound: no reason for a look at all that waits.
        rounds.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await rounds.changed.wait()


async def explain_for_ever(ctx: Context[Settings], rounds: Rounds) -> None:
    """Words for those who were refused, whenever there is nothing to decide; else a small part of the time."""
    wanted = rounds.explaining.wanted
    while True:
        await wanted.wait()
        began = ctx.clock.monotonic()
        more = await rounds.explain()
        took_s = ctx.clock.monotonic() - began
        if not rounds.readiness.may_plan():
            await ctx.clock.sleep(IDLE_S)
        elif more and rounds.has_work():
            await ctx.clock.sleep(min(max(PAUSE_PER_LOOK * took_s, PAUSE_MIN_S), PAUSE_MAX_S))
        else:
            await asyncio.sleep(0)


class Reports(Protocol):
    """Something that is told now and then."""

    async def tell(self) -> None:
        """Tell what has changed."""


async def tidy_for_ever(
    ctx: Context[Settings], rounds: Rounds, members: Members, reports: Sequence[Reports], optimiser: JointSolver | None
) -> None:
    """What only keeps things in order: who is alive, what ended plans left behind, what gangs report."""
    cluster = rounds.cluster
    tidied_at = float("-inf")
    while True:
        await ctx.clock.sleep(TIDY_EVERY_S)
        alive = members.alive()
        if alive != cluster.solvers:
            ctx.log.info("solvers alive", solvers=list(alive))
            cluster.resharded(alive)
            rounds.changed.set()
        metrics.CONFIGURATION_PROBLEMS.set(len(cluster.configuration.problems))
        metrics.CONFIGURATIONS_REFUSED.set(cluster.configuration.broken)
        metrics.NPU_TEMPLATE_PROBLEMS.set(len(cluster.facts.npu_templates.problems))
        metrics.REPORTS_REFUSED.set(cluster.loads.reports.refused)
        metrics.WAITING_GANG_GROUPS.set(cluster.queue.waiting_groups)
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
            for each in reports:
                await each.tell()
