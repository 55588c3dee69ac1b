"""Gives back what this process and former ones have written to the node.

That is before Berth is uninstalled, or after a process was killed that held best-effort pods when the next is not to.
"""

from __future__ import annotations

import asyncio

from berth.contracts.base import Problem
from berth.node_qos_enforcer.doers import Doers
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

RETRY_S = 10.0
"""Between two tries: a group that is in the way may be gone soon."""


async def give_back_for_ever(ctx: Context[Settings], executor: Executor, doers: Doers, known: KnownNode) -> None:
    """Give everything back, and try again what could not be, until cancelled."""
    was: tuple[Problem, ...] | None = None
    async for _ in Periodic(ctx.clock, RETRY_S).ticks(at_once=True):
        known.refused = await asyncio.to_thread(lambda: (*doers.clear(), *give_back(executor)))
        if known.refused != was:
            if known.refused:
                ctx.log.error("not everything could be given back", problems=[str(each) for each in known.refused])
            else:
                ctx.log.info("everything is given back")
        was = known.refused


async def let_go_of_before(ctx: Context[Settings], executor: Executor, doers: Doers) -> None:
    """A process before this one held pods, and was killed; this one is not to hold them. What the plugin of the
    container runtime has written stays."""
    problems = await asyncio.to_thread(lambda: (*doers.clear(), *executor.undo(lambda kept: bool(kept.knob))))
    for problem in problems:
        ctx.log.error("pods stay held", field=problem.field, problem=problem.message)
