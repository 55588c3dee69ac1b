"""The tasks of a process, none of which may fail unseen.

A task that raises ends the process: half a service is worse than one that starts again. The first failure is what the
process dies of; each failure is logged once, with its traceback, unless one line says it all. A task that returns is
done, and that is fine.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from berth.telemetry import Logger


class Supervisor:
    """Starts tasks, notices the first failure, and ends them all within a bounded time."""

    def __init__(self, log: Logger, tell: Callable[[BaseException], bool] = lambda error: False) -> None:
        """`tell` logs a failure that needs no traceback, and says whether it was one."""
        self._log = log
        self._tell = tell
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self.failure: BaseException | None = None
        """What the first failing task raised."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine as a task of this process."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def names(self) -> list[str]:
        """The tasks that are running."""
        return sorted(task.get_name() for task in self._tasks)

    async def finished(self) -> None:
        """Return when a task has failed or none is left."""
        while self.failure is None and self._tasks:
            self._changed.clear()
            await self._changed.wait()

    async def stop(self, first: asyncio.Task[Any], timeout_s: float, *, grace_s: float = 1.0) -> list[str]:
        """Cancel `first` and let it finish while the others still serve it; then cancel the others.

        Returns the names of those that would not end.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        await self._end({first}, timeout_s)
        rest_s = deadline - asyncio.get_running_loop().time()
        await self._end(set(self._tasks), max(rest_s, grace_s))
        return self.names()

    async def _end(self, tasks: set[asyncio.Task[Any]], timeout_s: float) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._changed.set()
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            if not self._tell(error):
                self._log.error("task failed", task=task.get_name(), exc_info=error)
            if self.failure is None:
                self.failure = error
