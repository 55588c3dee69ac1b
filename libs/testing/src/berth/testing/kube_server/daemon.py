"""A child process that can be killed and started again, and the janitor that cleans up when its parent dies."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_DEADLINE_S = 180.0
"""Longest wait for a server that is starting; a machine that is busy compiling needs much of it."""
TAIL_BYTES = 4000
_PR_SET_PDEATHSIG = 1
# Reads the living process ids, one line per change, until the parent is gone; then kills the last ones named.
_JANITOR = 'while read -r line; do pids=$line; done; [ -n "$pids" ] && kill -9 $pids 2>/dev/null; rm -rf -- "$0"'


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """In the child: the kernel kills it when the thread that started it is gone (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Janitor:
    """Kills what is left and removes `folder` when this process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._alive: set[int] = set()
        self._shell = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _JANITOR, str(folder)], stdin=subprocess.PIPE, start_new_session=True
        )

    def started(self, pid: int) -> None:
        """This process is to be killed."""
        self._alive.add(pid)
        self._tell()

    def ended(self, pid: int) -> None:
        """This process has ended by itself."""
        self._alive.discard(pid)
        self._tell()

    def _tell(self) -> None:
        pipe = self._shell.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.write((" ".join(map(str, sorted(self._alive))) + "\n").encode())
                pipe.flush()

    def close(self) -> None:
        """Clean up now."""
        if self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.close()
        self._shell.wait(30)


class Daemon:
    """One server process; `ready` says whether it serves. Its log is appended to over restarts."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, ready: Callable[[], bool], janitor: Janitor
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._ready = ready
        self._janitor = janitor
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    def start(self) -> None:
        """Start it and return once it serves. Raises RuntimeError with the end of its log when it does not."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._janitor.started(self._process.pid)
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not serve:\n{self.tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9: no goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait until it did."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._janitor.ended(process.pid)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def tail(self) -> str:
        """The end of its log."""
        try:
            return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return ""
