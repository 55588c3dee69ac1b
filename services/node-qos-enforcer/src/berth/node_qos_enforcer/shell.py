"""Bus in, bus out: follow the node's state, look at the machine now and then, publish, answer questions.

The first look comes at once and the second a second later, because CPU usage takes two; from then on they come at the
set interval. Looks run in a thread, since files of the kernel can be slow when the machine is in trouble.
"""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version

from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.question import StatusAnswer
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.handlers import NodeView, Reporter, node_key
from berth.node_qos_enforcer.machine import read_topology
from berth.node_qos_enforcer.sampler import Trees, take_sample
from berth.node_qos_enforcer.settings import Settings
from berth.runtime import Context, Periodic

SERVICE = "node-qos-enforcer"
SECOND_LOOK_S = 1.0
LOOKING = "looking at the node"


async def main(ctx: Context[Settings]) -> None:
    """Run the agent until cancelled."""
    settings = ctx.settings
    node = settings.node_or_default()
    key = node_key(node)
    view = NodeView(key)
    ctx.spawn(ctx.bus.follow(buckets.STATE, view, keys=key).run(), name="follow-node")
    meter = Meter(node, max_gap_s=2 * settings.interval_s + SECOND_LOOK_S)
    reporter: Reporter
    bucket = ctx.bus.owned(
        buckets.METRICS,
        keys=key,
        on_conflict=lambda conflicted: reporter.on_conflict(conflicted),
        on_reset=lambda: reporter.on_reset(),
    )
    reporter = Reporter(node=node, meter=meter, strategy=settings.strategy(), view=view, bucket=bucket)
    ctx.health.add("measured", lambda: _measured(ctx, reporter))
    await ctx.bus.serve(SERVICE, version(f"berth-{SERVICE}"), {"status": lambda _: _status(ctx, reporter)})
    trees = Trees(DiskTree(settings.proc_root), DiskTree(settings.sys_root), DiskTree(settings.cgroup_or_default()))
    await _describe(ctx, trees, node)
    await _look_for_ever(ctx, trees, reporter)


async def _look_for_ever(ctx: Context[Settings], trees: Trees, reporter: Reporter) -> None:
    interval_s = ctx.settings.interval_s
    ctx.health.watch(LOOKING, 3 * interval_s + 60)
    await _look(ctx, trees, reporter)
    await ctx.clock.sleep(min(SECOND_LOOK_S, interval_s))
    async for _ in Periodic(ctx.clock, interval_s).ticks(at_once=True):
        await _look(ctx, trees, reporter)
        ctx.health.beat(LOOKING)


async def _look(ctx: Context[Settings], trees: Trees, reporter: Reporter) -> None:
    """Take one look in a thread and report it."""
    with figures.LOOK_SECONDS.time():
        sample = await asyncio.to_thread(
            take_sample, trees, monotonic=ctx.clock.monotonic, clock_ticks_per_s=os.sysconf("SC_CLK_TCK")
        )
    known = set() if reporter.last is None else {problem.field for problem in reporter.last.metrics.problems}
    measurement = reporter.report(sample, now=ctx.clock.now())
    for problem in measurement.metrics.problems:
        if problem.field not in known and problem.field != "interval_s":
            ctx.log.warning("cannot measure all of the node", field=problem.field, problem=problem.message)


async def _describe(ctx: Context[Settings], trees: Trees, node: str) -> None:
    """Log once what machine this is; a layout that cannot be read stops nothing."""
    try:
        rows = await asyncio.to_thread(read_topology, trees.sys)
    except (Malformed, Unreadable) as error:
        ctx.log.warning("cannot read the CPU layout", node=node, error=str(error))
        return
    ctx.log.info(
        "looking at node",
        node=node,
        cpus=len(rows),
        cores=len({(row.socket, row.core) for row in rows}),
        sockets=len({row.socket for row in rows}),
        numa_nodes=len({row.node for row in rows}),
        every_s=ctx.settings.interval_s,
    )


def _measured(ctx: Context[Settings], reporter: Reporter) -> tuple[bool, str]:
    if reporter.last is None:
        return False, "the node has not been looked at yet"
    age_s = ctx.clock.now() - reporter.last.metrics.measured_at
    return True, f"measured {age_s:.0f} s ago, {len(reporter.last.metrics.problems)} problems"


async def _status(ctx: Context[Settings], reporter: Reporter) -> bytes:
    """Answer how this agent is; each node has its own, so ask all of them."""
    return encode(
        StatusAnswer(
            service=SERVICE,
            instance=ctx.instance,
            active=True,
            ready=ctx.health.ready,
            facts=reporter.facts(),
        )
    )
