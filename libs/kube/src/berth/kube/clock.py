"""Time as an argument, so that a whole control plane can run on virtual time.

Nothing in this package reads a clock or sleeps by other means, except the socket time-outs of the real transport.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What code that waits needs to know about time."""

    def now(self) -> float:
        """Unix time in seconds. For time stamps that people read, never for measuring."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since the machine started, or so."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """asyncio's sleep."""
        await asyncio.sleep(seconds)
