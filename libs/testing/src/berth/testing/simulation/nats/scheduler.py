"""Schedulers that also deliver to clients, each in its own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from berth.testing.simulation import scheduling
from berth.testing.simulation.process import Process
from berth.testing.simulation.scheduling import Cancellable as Timer

if TYPE_CHECKING:
    from berth.testing.simulation.nats.client import SimClient
    from berth.testing.simulation.world import World

__all__ = ["LoopScheduler", "Scheduler", "Timer", "WorldScheduler"]


class Scheduler(scheduling.Scheduler, Protocol):
    """`later` calls outside of every process. What is due at the same time comes in any order, but each thing once."""

    def deliver(self, client: SimClient, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call in the event loop of the client's process: not before it runs again, never once it is dead."""
        ...


class LoopScheduler(scheduling.LoopScheduler):
    """The running event loop, for everybody."""

    def deliver(self, client: SimClient, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """See `Scheduler.deliver`."""
        return self.later(delay_s, callback, *args)


class WorldScheduler(scheduling.WorldScheduler):
    """A world's virtual time; the owner of a client is its process."""

    def __init__(self, world: World) -> None:
        super().__init__(world)

    def deliver(self, client: SimClient, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """See `Scheduler.deliver`."""
        world, owner = self._world, client.owner
        if not isinstance(owner, Process):
            return world.later(delay_s, None, callback, *args)
        return owner.loop.deliver(callback, args, world.now + delay_s if delay_s > 0 else world.now)
