"""Timers as the simulated servers need them: on virtual time in a simulation, in real time in a test of one part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from berth.testing.simulation.process import Process
from berth.testing.simulation.world import World


class Cancellable(Protocol):
    """Something that is going to happen."""

    def cancel(self) -> None:
        """It will not."""


class Scheduler(Protocol):
    """One place where callbacks run: inside one process, or outside of all."""

    def now(self) -> float:
        """Seconds since some fixed moment."""

    def later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """Call this after `delay_s`; never at once, also for 0."""


class WorldScheduler:
    """Inside a process, and no more once it is dead; or, without one, outside of all."""

    def __init__(self, world: World, process: Process | None = None) -> None:
        self._world = world
        self._process = process

    def now(self) -> float:
        """Virtual seconds."""
        return self._world.now

    def later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """See `World.later`."""
        return self._world.later(delay_s, self._process, callback, *args)


class LoopScheduler:
    """The running event loop, in real time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """asyncio's `call_later`, or `call_soon`."""
        if delay_s <= 0:
            return self._loop.call_soon(callback, *args)
        return self._loop.call_later(delay_s, callback, *args)
