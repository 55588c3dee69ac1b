"""Real solvers beside the writers of a world."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.services.worlds.writer.mirror import NONE_HERE
from tests.services.worlds.writer.world import World

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.ledger import Decision
from berth.placement_solver.settings import Settings
from berth.placement_solver.shell import main
from berth.runtime import Context
from berth.testing.views import View


class Solvers:
    """Solvers by instance, and LEDGER as they see it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: dict[str, tuple[Context[Settings], asyncio.Task[None]]] = {}
        self.ledger = View()

    async def start(self, instance: str, **settings: Any) -> None:
        self.world.mirror.none_of = NONE_HERE
        self.world.mirror.mark()
        bus = await self.world.connect("placement-solver")
        chosen = Settings(**({"optimiser_budget_s": 0.0} | settings))
        context = Context(
            service="placement-solver", settings=chosen, bus=bus, instance=instance, random=random.Random(instance)
        )
        self.running[instance] = (context, asyncio.create_task(main(context)))

    async def stop(self, instance: str) -> None:
        context, task = self.running.pop(instance)
        assert await context.supervisor.stop(task, 5.0) == []
        await asyncio.gather(task, return_exceptions=True)
        assert context.supervisor.failure is None

    async def crash(self, instance: str) -> None:
        context, task = self.running.pop(instance)
        await context.bus.close()
        await context.supervisor.stop(task, 2.0)
        await asyncio.gather(task, return_exceptions=True)

    def decisions(self, epoch: int) -> list[Decision]:
        prefix = f"{subjects.epoch_prefix(epoch)}decision."
        found = [e for e in self.ledger.entries if e.key.startswith(prefix) and not e.deleted]
        return [decode(entry.value, Decision) for entry in found]
