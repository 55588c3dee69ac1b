"""Time as an argument.

A service asks its clock instead of importing `time`, so that a whole control plane can run on simulated time.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock, steady clock and waiting."""

    def now(self) -> float:
        """Unix time in seconds. May jump; for stamps that others read."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start. Never goes back; for durations and deadlines within this process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; not at all when `seconds` is not positive, but other tasks still get their turn."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(max(0.0, seconds))
