"""Holds best-effort pods to the strategy: look, plan, write, more often than figures are published.

Needs no bus: it acts on the last strategy that was received, from the bus or from the file of a former life. Without
one it changes nothing. When it ends, the group is let go of.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from threading import Lock

from berth.contracts.base import Problem
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.control import Control
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.plan import Plan
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.sampler import Trees, take_sample
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

ENFORCING = "holding best-effort pods"
STUCK_S = 60.0


class Enforcer:
    """One node's enforcement. Blocking: it reads and writes files."""

    def __init__(self, control: Control, meter: Meter, known: KnownNode) -> None:
        """Take the door to the control groups, a meter of its own (its looks are closer), and what is known."""
        self._control = control
        self._meter = meter
        self._known = known
        self._acted = self._ended = False
        self._lock = Lock()

    def step(self, sample: NodeSample, *, now: float) -> Plan:
        """Take one look to its end: measure it, plan, write what is to be written. Returns the plan."""
        known = self._known
        strategy = known.strategies.strategy
        if strategy is None:
            return Plan(reason="no strategy is known yet")
        if sample.driver is None:
            return Plan(reason="no kubelet here")
        measured = self._meter.measure(
            sample, now=now, strategy=strategy, facts=known.facts, processors=known.processors
        )
        self._write(measured.plan, sample)
        return measured.plan

    def end(self) -> tuple[Problem, ...]:
        """Let go of the group for good, unless this process never saw to it. Returns what could not be written.

        A step that is still under way in its thread writes nothing after this.
        """
        with self._lock:
            self._ended = True
            return self._control.let_go() if self._acted or self._control.is_held else ()

    def _write(self, plan: Plan, sample: NodeSample) -> None:
        with self._lock:
            if self._ended:
                return
            self._acted = True
            refused = () if plan.is_empty else self._control.apply(plan, sample.best_effort)
        self._known.refused = refused
        failed = {problem.field for problem in refused}
        for knob, value in (("quota", plan.quota_us), ("cpus", plan.cpus)):
            if value is not None:
                figures.WRITES.labels(knob, "refused" if f"best_effort.{knob}" in failed else "written").inc()


async def enforce_for_ever(ctx: Context[Settings], trees: Trees, known: KnownNode, control: Control) -> None:
    """Enforce until cancelled, then let go."""
    interval_s = ctx.settings.enforce_interval_s
    meter = Meter(known.node, max_gap_s=2 * interval_s + 1.0)
    enforcer = Enforcer(control, meter, known)
    ctx.health.watch(ENFORCING, 3 * interval_s + STUCK_S)
    was_refused: tuple[Problem, ...] = ()
    was: Strategy | None = None
    try:
        async for _ in Periodic(ctx.clock, interval_s).ticks(at_once=True):
            now = known.strategies.strategy
            if now is not None and now != was:
                ctx.log.info("strategy in force", told_by=known.strategies.source, **asdict(now))
            was = now
            plan = await asyncio.to_thread(_round, ctx, trees, enforcer)
            ctx.health.beat(ENFORCING)
            if not plan.is_empty:
                ctx.log.debug("best-effort pods are held", quota_us=plan.quota_us, cpus=sorted(plan.cpus or ()))
            if known.refused and known.refused != was_refused:
                ctx.log.error("best-effort pods cannot be held", problems=[str(each) for each in known.refused])
            was_refused = known.refused
    finally:
        # A few small writes: done at once, so that nothing can come in between.
        for problem in enforcer.end():
            ctx.log.error("best-effort pods stay held", field=problem.field, problem=problem.message)


def _round(ctx: Context[Settings], trees: Trees, enforcer: Enforcer) -> Plan:
    sample = take_sample(trees, monotonic=ctx.clock.monotonic, clock_ticks_per_s=os.sysconf("SC_CLK_TCK"))
    return enforcer.step(sample, now=ctx.clock.now())
