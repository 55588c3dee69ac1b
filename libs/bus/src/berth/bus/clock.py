"""The clock of a real process."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Wall clock, monotonic clock and asyncio's sleep."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)
