"""Time and timers of the simulated server, as an argument.

In a simulation this is the world's scheduler on virtual time; in the contract tests it is the running event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from berth.testing.simulation.nats.client import SimClient
    from berth.testing.simulation.world import World


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None:
        """Do not call it; no harm when that has happened."""
        ...


class Scheduler(Protocol):
    """Calls things later. What is due at the same time comes in any order, but each thing once."""

    def now(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call outside of every process."""
        ...

    def deliver(self, client: SimClient, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call in the event loop of the client's process: not before it runs again, never once it is dead."""
        ...


class LoopScheduler:
    """The running event loop, for everybody."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """See `Scheduler.later`."""
        if delay_s <= 0:
            return self._loop.call_soon(callback, *args)
        return self._loop.call_later(delay_s, callback, *args)

    def deliver(self, client: SimClient, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """See `Scheduler.deliver`."""
        return self.later(delay_s, callback, *args)


class WorldScheduler:
    """A world's virtual time; the owner of a client is its process."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        """Virtual seconds."""
        return self._world.now

    def later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """See `Scheduler.later`."""
        return self._world.later(delay_s, None, callback, *args)

    def deliver(self, client: SimClient, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """See `Scheduler.deliver`."""
        return self._world.later(delay_s, client.owner, callback, *args)
