"""The parent's side of the janitor: starts it, reports every process to it, and lets it go."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from berth.cli.stack import janitor

END_TIMEOUT_S = 5.0


class ProcessMonitor:
    """Keeps a janitor posted. Without one (it cannot start) a run still cleans up after itself on ordinary ways out."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None

    async def start(self, folder: Path, *, keep: bool) -> None:
        """Start the janitor of this folder."""
        command = [sys.executable, "-I", "-S", janitor.__file__, str(folder), "keep" if keep else "remove"]
        quiet = asyncio.subprocess.DEVNULL
        with contextlib.suppress(OSError):
            self._child = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
            )

    def started(self, pid: int) -> None:
        """A process to kill if we die."""
        self._tell(f"+{pid}\n")

    def ended(self, pid: int) -> None:
        """That process has ended; its id may be given to somebody else."""
        self._tell(f"-{pid}\n")

    def _tell(self, line: str) -> None:
        if self._child is not None and self._child.stdin is not None and not self._child.stdin.is_closing():
            self._child.stdin.write(line.encode())

    async def dismiss(self) -> None:
        """Everything is cleaned up already."""
        if self._child is None or self._child.stdin is None:
            return
        self._child.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_TIMEOUT_S):
                await self._child.wait()
