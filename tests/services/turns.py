"""A lease that a test gives and takes, and work that is interrupted by that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Turns:
    """Stands in for `ActiveStandby`: its replica is active from `give()` until `take()`."""

    def __init__(self) -> None:
        self._given = asyncio.Event()
        self._taken = asyncio.Event()

    @property
    def active(self) -> bool:
        return self._given.is_set()

    def check(self) -> tuple[bool, str]:
        return True, "active" if self.active else "standby"

    def give(self) -> None:
        self._taken.clear()
        self._given.set()

    def take(self) -> None:
        self._given.clear()
        self._taken.set()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._given.wait()
            working = asyncio.ensure_future(work())
            taken = asyncio.ensure_future(self._taken.wait())
            try:
                await asyncio.wait({working, taken}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
            finally:
                for task in (working, taken):
                    task.cancel()
                await asyncio.wait({working, taken})


class Stuck:
    """Stands in for a method that waits until its caller is interrupted."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, *args: object) -> None:
        self.calls += 1
        await asyncio.Event().wait()
