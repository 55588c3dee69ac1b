"""Cleans up when the process that started a stack dies without warning. A program of its own, standard library only.

It reads process ids from its standard input (`+12` started, `-12` ended) for as long as the other end is open, which is
as long as the parent lives. Then it kills what is left and removes the folder of the run, unless that is to be kept.

Usage: janitor.py FOLDER keep|remove
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

TRIES = 20
PAUSE_S = 0.1


def main(folder: str, fate: str) -> None:
    """Wait for the parent's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    alive: set[int] = set()
    for line in sys.stdin.buffer:
        with contextlib.suppress(ValueError):
            (alive.add if line[:1] == b"+" else alive.discard)(int(line[1:]))
    for pid in alive:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    # A process that is just dying may still write a file.
    for _ in range(TRIES if fate == "remove" else 0):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
