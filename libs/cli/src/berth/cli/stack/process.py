"""One child process: started with its log in a file, killed with its parent, stopped in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from berth.cli.errors import EXIT_USAGE
from berth.cli.stack.process_monitor import ProcessMonitor

STOP_TIMEOUT_S = 8.0
LOG_TAIL_LINES = 15
_PR_SET_PDEATHSIG = 1
_TRIES = 40
_PAUSE_S = 0.05
_OURS = ("BERTH_NATS_", "BERTH_KUBE", "BERTH_HTTP_", "BERTH_PORT_FILE", "BERTH_INSTANCE", "BERTH_LEASE_N")
"""Variables that a stack sets itself. Those of the user's shell are meant for another bus or cluster."""


class StartError(Exception):
    """A process did not come up; the message says which, and what its log ends with. `code` is for the exit."""

    def __init__(self, message: str, code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.code = code


def _before_program(niceness: int) -> None:
    """In the child, before it becomes the program: it gives way, and the kernel kills it when its parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(niceness)


async def _give_way(pid: int) -> None:
    """Have a process's autogroup be as nice as the process: where the kernel makes those, how nice a process is counts
    within its own alone."""
    for _ in range(_TRIES):
        try:
            _set_group(pid, os.getpriority(os.PRIO_PROCESS, pid))
        except BlockingIOError:  # whoever is not root may do so ten times a second, all users together
            await asyncio.sleep(_PAUSE_S)
        except OSError:
            return
        else:
            return


def _set_group(pid: int, niceness: int) -> None:
    Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


def inherited() -> dict[str, str]:
    """Our environment for a child, without the addresses of some other control plane."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


class Process:
    """A named child process. `environment` is added to ours; the log file is appended to over restarts.

    `niceness`: how many steps it is nicer than we are.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        monitor: ProcessMonitor | None = None,
        niceness: int = 0,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.environment = dict(environment or {})
        self.restarts = 0
        self.starts = 0
        self._niceness = niceness
        self._watchman = monitor or ProcessMonitor()
        self._child: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 while it does not run."""
        return self._child.pid if self._child and self._child.returncode is None else 0

    async def start(self) -> None:
        """Start it. Raises StartError when the program cannot be executed."""
        with self.log.open("ab") as log:
            try:
                self._child = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**inherited(), **self.environment},
                    start_new_session=True,
                    preexec_fn=partial(_before_program, self._niceness),
                )
            except OSError as error:
                raise StartError(f"{self.name}: cannot run {self.command[0]}: {error}") from error
        self.starts += 1
        self._watchman.started(self._child.pid)
        if self._niceness:
            await _give_way(self._child.pid)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        if self._child is None:
            return 0
        code = await self._child.wait()
        self._watchman.ended(self._child.pid)
        return code

    async def stop(self) -> None:
        """Ask it to end; kill it when it does not."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await child.wait()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await child.wait()
        self._watchman.ended(child.pid)

    def signal(self, number: int) -> None:
        """Send a signal to it, if it runs."""
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(number)

    def tail(self) -> str:
        """The last lines of its log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:])
