"""Gives back what this process and former ones have written to the node.

That is before Berth is uninstalled, or after a process was killed that held best-effort pods when the next is not to.
"""

from __future__ import annotations

import asyncio

from berth.contracts.base import Problem
from berth.node_qos_enforcer.control import Control
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

RETRY_S = 10.0
"""Between two tries: a group that is in the way may be gone soon."""


def give_back(control: Control, executor: Executor) -> tuple[Problem, ...]:
    """Let go of the best-effort group, and give every other file what it had. Returns what could not be written."""
    problems = control.let_go() if control.is_held else ()
    return problems + executor.undo()


async def give_back_for_ever(ctx: Context[Settings], control: Control, executor: Executor, known: KnownNode) -> None:
    """Give everything back, and try again what could not be, until cancelled."""
    was: tuple[Problem, ...] | None = None
    async for _ in Periodic(ctx.clock, RETRY_S).ticks(at_once=True):
        known.refused = await asyncio.to_thread(give_back, control, executor)
        if known.refused != was:
            if known.refused:
                ctx.log.error("not everything could be given back", problems=[str(each) for each in known.refused])
            else:
                ctx.log.info("everything is given back")
        was = known.refused


async def let_go_of_before(ctx: Context[Settings], control: Control) -> None:
    """A process before this one held best-effort pods, and was killed; this one is not to hold them."""
    for problem in await asyncio.to_thread(control.let_go):
        ctx.log.error("best-effort pods stay held", field=problem.field, problem=problem.message)
