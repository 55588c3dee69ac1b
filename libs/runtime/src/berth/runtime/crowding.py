"""How full the machine is, as this process feels it: how long it waits for a core when it has something to do.

Linux counts for each thread how long it ran, and how long it was ready and waited for its turn. That says what a load
average of the whole machine does not, and holds for a container's share of it, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

RECKONED_S: Final = 0.05
"""The share is reckoned anew once the thread was ready for so long since."""
SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")
"""Nanoseconds that the thread which opens it ran, and that it waited; and how often it was given a core."""


class Turns(NamedTuple):
    """Seconds since the thread began."""

    ran_s: float
    waited_s: float


def no_turns() -> Turns | None:
    """Nobody counts."""
    return None


class Crowding:
    """What share of the time in which this thread is ready it waits."""

    def __init__(self, read: Callable[[], Turns | None] = no_turns) -> None:
        self._read = read
        self._at = read() or Turns(0.0, 0.0)
        self._share = 0.0

    def share(self) -> float:
        """0: it always runs at once; 0.5: it waits as long as it runs; 0 as well where nobody counts."""
        now = self._read()
        if now is None:
            return 0.0
        ran_s, waited_s = now.ran_s - self._at.ran_s, now.waited_s - self._at.waited_s
        if ran_s + waited_s >= RECKONED_S:
            self._share, self._at = waited_s / (ran_s + waited_s), now
        return self._share


def turns_of_this_thread(path: Path = SCHEDSTAT) -> Callable[[], Turns | None]:
    """Reads what the kernel counts. The file stays open: it is read tens of times a second."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return no_turns

    def read() -> Turns | None:
        with suppress(OSError, ValueError):
            ran, waited, *_ = os.pread(file, 128, 0).split()
            return Turns(int(ran) / 1e9, int(waited) / 1e9)
        return None

    return read
