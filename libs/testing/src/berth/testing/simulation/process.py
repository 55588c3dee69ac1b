"""One incarnation of a simulated process: its loop, its clock, its chance, and how it ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from berth.testing.simulation.loop import SimLoop, Timer

if TYPE_CHECKING:
    from berth.testing.simulation.world import World


class ProcessClock:
    """The clock of one process (berth.bus.port.Clock, berth.kube.Clock). Only what people read is skewed."""

    def __init__(self, world: World, loop: SimLoop, skew_s: float) -> None:
        self._world = world
        self._loop = loop
        self.skew_s = skew_s

    def now(self) -> float:
        """Unix time in seconds, as this process believes it to be."""
        return self._world.wall() + self.skew_s

    def monotonic(self) -> float:
        """Virtual seconds; never jumps."""
        return self._world.now

    async def sleep(self, seconds: float) -> None:
        """asyncio's sleep on the loop of this process, one layer thinner: half of all callbacks are its wake-ups."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = self._loop
        waker = loop.create_future()
        timer = loop.deliver(_wake, (waker,), self._world.now + seconds)
        try:
            await waker
        finally:
            timer.cancel()

    def jump(self, seconds: float) -> None:
        """The wall clock is set forth or back."""
        self.skew_s += seconds


class Process:
    """Made by `World.process`. A restart is another one of the same name."""

    def __init__(self, world: World, name: str, incarnation: int, number: int, clock_skew_s: float) -> None:
        self.name = name
        self.incarnation = incarnation
        self.random = random.Random(f"{world.seed}/{name}/{incarnation}")
        make: Any = SimLoop  # typeshed calls abstract what asyncio itself leaves to raise NotImplementedError
        self.loop: SimLoop = make(world, f"{name}#{incarnation}", number, self.kill)
        self.clock = ProcessClock(world, self.loop, clock_skew_s)
        self.failure: BaseException | None = None
        """What the coroutine of `start` raised; None while it runs, when it returned, and when it was killed."""
        self.finished = False
        """Whether that coroutine has ended by itself."""
        self._world = world
        self._endings: list[Callable[[Process], object]] = []
        self._main: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return f"<Process {self.loop.name}{'' if self.alive else ' dead'}>"

    @property
    def alive(self) -> bool:
        """Whether anything of it may still run."""
        return not self.loop.dead

    @property
    def unseen_failures(self) -> list[str]:
        """What asyncio would have logged: failures that nobody looked at."""
        return self.loop.unseen_failures

    def start(self, main: Coroutine[Any, Any, Any]) -> None:
        """Run this in the next turn. The process ends with it, whatever tasks are left, as a real one would."""
        if self._main is not None:
            raise RuntimeError(f"{self} was started before; a restart is a new process")
        self._main = self.loop.create_task(main, name=self.loop.name)
        self._main.add_done_callback(self._main_ended)

    def call(self, callback: Callable[..., object], *args: Any) -> Timer:
        """Run a plain function inside this process, now: a signal handler, say."""
        return self._world.later(0.0, self, callback, *args)

    def on_end(self, callback: Callable[[Process], object]) -> None:
        """Call this when the process is no more, however it ended: its connections break, its supervisor looks.

        It is called outside of every process.
        """
        self._endings.append(callback)

    def kill(self) -> None:
        """kill -9: no further callback runs, and no `finally`."""
        if self.loop.dead:
            return
        self.loop.die()
        for callback in self._endings:
            self._world.later(0.0, None, callback, self)

    def kill_after(self, callbacks: int) -> None:
        """kill -9 after so many more callbacks, which may be in the middle of a burst at one instant."""
        if callbacks < 0:
            raise ValueError(f"callbacks: {callbacks} is negative")
        if callbacks:
            self.loop.fuse = callbacks
        else:
            self.kill()

    def pause(self) -> None:
        """SIGSTOP: what is due waits."""
        self.loop.paused = True

    def resume(self) -> None:
        """SIGCONT: what was due meanwhile happens now."""
        self.loop.paused = False
        if self.loop.ready and not self.loop.runnable:
            self._world.wake(self.loop)

    def _main_ended(self, main: asyncio.Task[Any]) -> None:
        if not main.cancelled():
            self.failure = main.exception()
        self.finished = True
        self.kill()


def _wake(waker: asyncio.Future[None]) -> None:
    if not waker.done():
        waker.set_result(None)
