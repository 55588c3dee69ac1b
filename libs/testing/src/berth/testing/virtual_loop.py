"""An event loop whose time jumps to the next timer when nothing else is left to do: tests of waiting do not wait.

For tests without sockets, threads or other processes: time stands still while something runs, and does not wait for
anything outside. What runs in an executor runs at once, in the
loop.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

WORK_S = 0.01
"""How long everything takes that runs in an executor."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with another `time`."""

    def __init__(self) -> None:
        self._virtual_s = 0.0
        super().__init__(_Selector(self._advance))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it now; its answer takes a while."""
        done = self.create_future()
        try:
            self.call_later(WORK_S, _give, done.set_result, done, func(*args))
        except Exception as error:
            self.call_later(WORK_S, _give, done.set_exception, done, error)
        return done

    def _advance(self, seconds: float) -> None:
        self._virtual_s += seconds


def _give(give: Callable[[Any], None], done: asyncio.Future[Any], outcome: Any) -> None:
    if not done.done():
        give(outcome)


class _Selector(selectors.DefaultSelector):
    """Waits by letting virtual time pass."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._let_pass = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self._let_pass(timeout)
        return ready


class LoopClock:
    """The clock of what runs in a loop (berth.bus.port.Clock): its time, also as Unix time from `epoch_s` on."""

    def __init__(self, epoch_s: float = 1_750_000_000.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._epoch_s = epoch_s

    def now(self) -> float:
        """Unix time in seconds."""
        return self._epoch_s + self._loop.time()

    def monotonic(self) -> float:
        """The loop's time."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """asyncio's sleep."""
        await asyncio.sleep(seconds)
