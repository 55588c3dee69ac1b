"""Which of two agents of a node writes: during a roll-out the next one starts before the last has ended.

The one that holds the lock writes. The next waits for it, and holds a second lock meanwhile, by which the first sees at
its end that somebody takes everything over as it is. Locks are those of the kernel: a process that is killed loses its.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable
from typing import Final

RETRY_S: Final = 0.2


class NodeLock:
    """Both locks, beside the journal; without a journal there is nothing to be handed over, and no lock."""

    def __init__(self, journal_file: str) -> None:
        """Take the path of the journal; empty: none."""
        self._path = journal_file
        self._held: int | None = None

    async def wait(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Until this process is the one that writes. A folder that takes no lock files has one process write at once:
        `Executor` names it."""
        if not self._path:
            return
        try:
            self._held = _open(f"{self._path}.lock")
            waiting = _open(f"{self._path}.next")
        except OSError:
            self.release()
            return
        try:
            while not _locks(waiting):
                await sleep(RETRY_S)
            while not _locks(self._held):
                await sleep(RETRY_S)
        finally:
            os.close(waiting)

    def take(self) -> bool:
        """Be the one that writes, if nobody else is or waits to be. Raises OSError."""
        if not self._path:
            return True
        held = _open(f"{self._path}.lock")
        if not _locks(held):
            os.close(held)
            return False
        self._held = held
        # Only now: whoever ends and sees this lock held takes it for a successor's.
        if self.is_awaited():
            self.release()
            return False
        return True

    def is_awaited(self) -> bool:
        """Whether another process waits to be the one that writes."""
        if self._held is None:
            return False
        try:
            waiting = _open(f"{self._path}.next")
        except OSError:
            return False
        try:
            return not _locks(waiting)
        finally:
            os.close(waiting)

    def release(self) -> None:
        """Another one may write."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
