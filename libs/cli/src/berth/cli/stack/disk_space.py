"""No disk space: reported in one line, with what to do, wherever it shows first.

A full disk may stop us before anything runs, the nats-server while it starts, or the service that asks it for a stream.
"""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from berth.cli.errors import EXIT_DISK_FULL, EXIT_USAGE
from berth.cli.stack.process import Process, StartError

LINES_MAX = 200
HINT = "free some space, or name a folder on another disk with TMPDIR"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS = ("no space left on device", "disk quota exceeded")


def unwritable(error: OSError) -> StartError:
    """What to say when the folder of the run cannot be written."""
    if error.errno in _FULL:
        return StartError(f"no space on the disk below {tempfile.gettempdir()}: {HINT}", EXIT_DISK_FULL)
    return StartError(f"cannot write below {tempfile.gettempdir()}: {error}", EXIT_USAGE)


def lack_of(process: Process, code: int) -> str:
    """One line for a process that ended because the disk has no space for it; empty when that is not why."""
    from berth.runtime.run import BUS_UNUSABLE, EXIT_BUS  # seldom needed, and slow to import

    if code == EXIT_BUS:
        reason = next((line.get("reason", "") for line in _log(process.log) if line.get("message") == BUS_UNUSABLE), "")
        return (
            f"{process.name}: {reason or BUS_UNUSABLE}; {HINT}" if "no space" in reason else f"{process.name}: {reason}"
        )
    text = process.tail().lower()
    if any(each in text for each in _FULL_TEXTS):
        return f"{process.name} finds no space on the disk below {process.log.parent.parent}: {HINT}"
    return ""


def _log(file: Path) -> list[dict[str, Any]]:
    """The last lines of a JSON log, newest first; lines that are none are left out."""
    found = []
    try:
        lines = file.read_bytes().splitlines()[-LINES_MAX:]
    except OSError:
        return []
    for line in reversed(lines):
        try:
            found.append(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.MsgspecError:
            continue
    return found
