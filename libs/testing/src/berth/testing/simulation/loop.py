"""The event loop of a simulated process: asyncio's, without a thread of its own, sockets, or time of its own.

Tasks, futures, timeouts, queues and locks of asyncio work on it unchanged. It never runs by itself: `World` takes its
timers and steps it. Work for an executor is done at once, in place. What needs the machine (sockets, child processes,
signals) is refused by `NotImplementedError`.

A loop that is dead runs nothing further, not even clean-up: what it held is kept out of reach of the garbage collector
until `bury`.
"""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import msgspec

if TYPE_CHECKING:
    from berth.testing.simulation.world import World

T = TypeVar("T")

FAILURES_MAX: Final = 200
_CLOSE_ATTEMPTS: Final = 20  # a coroutine may await in its clean-up; each attempt gets it past one such await


class Handle(msgspec.Struct, eq=False):
    """A callback that waits for its turn; None: it was cancelled. Like asyncio's, as far as anybody looks at it."""

    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: contextvars.Context | None

    def cancel(self) -> None:
        """It will not run."""
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.callback is None


class Timer(Handle, eq=False):
    """A callback with a time. `loop` is whose callback it is; None: of nobody, it runs outside of every process."""

    loop: SimLoop | None
    when_s: float

    def when(self) -> float:
        """Virtual seconds."""
        return self.when_s


class SimTask(asyncio.Task[T]):
    """A task that hashes by its number, so that a set of tasks has the same order in every run."""

    number: int

    def __new__(cls, coro: Coroutine[Any, Any, T], *, loop: SimLoop, **_: Any) -> SimTask[T]:
        self = super().__new__(cls)
        self.number = loop.next_number()
        return self

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.AbstractEventLoop):
    """See the module. `ready`, `runnable`, `paused` and `fuse` belong to the World."""

    def __init__(self, world: World, name: str, number: int, on_death: Callable[[], None]) -> None:
        self.name = name
        self.number = number
        self.ready: deque[Handle] = deque()
        self.runnable = False
        self.paused = False
        self.dead = False
        self.fuse = -1
        """How many more callbacks run before the process dies; -1: no limit."""
        self.busy_since_s = -1.0
        self.turns = 0
        self.unseen_failures: list[str] = []
        """What asyncio would have logged: failures that nobody looked at."""
        self._world = world
        self._on_death = on_death
        self._numbers = 0
        self._base = contextvars.copy_context()
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._grave: list[asyncio.Task[Any]] = []
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]  # without a frame

    def __repr__(self) -> str:
        return f"<SimLoop {self.name}{' dead' if self.dead else ''}>"

    def next_number(self) -> int:
        """1, 2, 3, ... for tasks."""
        self._numbers += 1
        return self._numbers

    # --- callbacks ----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self._world.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        """Run in the next turn of this loop."""
        handle = Handle(callback, args, context if context is not None else contextvars.copy_context())
        if self.dead:
            handle.cancel()
            return handle
        self.ready.append(handle)
        if not self.runnable:
            self._world.wake(self)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Timer:
        """Run after so many virtual seconds."""
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Timer:
        """Run at this moment of `time()`."""
        timer = Timer(callback, args, context if context is not None else contextvars.copy_context(), self, when)
        if self.dead:
            timer.cancel()
        else:
            self._world.push(timer)
        return timer

    def deliver(self, callback: Callable[..., object], args: tuple[Any, ...], when_s: float) -> Timer:
        """Something from outside, at this moment."""
        timer = Timer(callback, args, self._base, self, when_s)
        if self.dead:
            timer.cancel()
        else:
            self._world.push(timer)
        return timer

    # --- tasks and futures --------------------------------------------------------------------------------------------

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        """asyncio's, with names that don't depend on other loops."""
        if self.dead:
            coro.close()
            raise RuntimeError(f"process {self.name} is dead")
        return SimTask(coro, loop=self, name=name or f"{self.name}-{self._numbers + 1}", context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do it now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except StopIteration as error:  # which a future does not take
            future.set_exception(RuntimeError(repr(error)))
        except Exception as error:
            future.set_exception(error)
        return future

    def get_task_factory(self) -> None:
        """None."""

    # --- state --------------------------------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """As long as it lives."""
        return not self.dead

    def is_closed(self) -> bool:
        """Once it is dead."""
        return self.dead

    get_debug = bool  # its call says False, without a frame: every future and every task asks
    """Never."""

    def set_debug(self, enabled: bool) -> None:
        """Nothing."""

    def run_forever(self) -> NoReturn:
        """Only the World steps this loop."""
        raise RuntimeError("World.run steps the loops of a simulation")

    def run_until_complete(self, future: object) -> NoReturn:
        """Only the World steps this loop."""
        raise RuntimeError("World.run steps the loops of a simulation")

    def stop(self) -> None:
        """The process ends as if killed."""
        self._on_death()

    def close(self) -> None:
        """The process ends as if killed."""
        self._on_death()

    async def shutdown_asyncgens(self) -> None:
        """Nothing."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as asyncio has it
        """Nothing."""

    # --- failures -----------------------------------------------------------------------------------------------------

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        """What was set."""
        return self._handler

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Call this instead of keeping a failure."""
        self._handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep it as a failure."""
        if len(self.unseen_failures) >= FAILURES_MAX:
            return
        text = str(context.get("message", ""))
        error = context.get("exception")
        if isinstance(error, BaseException):
            text += "\n" + "".join(traceback.format_exception(error)).rstrip()
        self.unseen_failures.append(text)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback raised, or a task's failure was never looked at."""
        if self.dead:
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    def finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An asynchronous generator lost its last reference while it was under way."""
        if not self.dead:
            self.call_soon(self.create_task, generator.aclose())

    # --- death --------------------------------------------------------------------------------------------------------

    def die(self) -> None:
        """Nothing of this loop runs again."""
        if self.dead:
            return
        self.dead = True
        self._grave = list(asyncio.all_tasks(self))

    def bury(self) -> None:
        """Let go of what died. Clean-up of coroutines runs here, against a world that is over."""
        for task in self._grave:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # "Task was destroyed but it is pending!"
            _close(task.get_coro())
        for handle in self.ready:
            for arg in handle.args:
                if asyncio.iscoroutine(arg):
                    _close(arg)
        self._grave.clear()
        self.ready.clear()


def _close(coroutine: Any) -> None:
    for _ in range(_CLOSE_ATTEMPTS):
        try:
            coroutine.close()
        except BaseException:  # noqa: S112 - it awaited in its clean-up, or that failed: it is dead already
            continue
        return
