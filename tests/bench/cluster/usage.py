"""CPU time and peak memory of processes, read from /proc; children count with their parents."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
QUIET_WINDOW_S = 0.5
QUIET_SHARE = 0.12
"""Share of one core below which the processes count as done with what they do behind the binds."""


class Use(NamedTuple):
    """Seconds of CPU so far, and the most resident bytes so far."""

    cpu_s: float
    peak_bytes: int


def use_of(pid: int) -> Use:
    """Of a process and its living children; zero when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return Use(0.0, 0)
    cpu_s, peak = sum(map(int, fields[11:15])) / TICKS_PER_S, _peak_bytes(pid)
    for child in _children(pid):
        used = use_of(child)
        cpu_s, peak = cpu_s + used.cpu_s, peak + used.peak_bytes
    return Use(cpu_s, peak)


def own_use() -> Use:
    """Of this process alone: everybody in the race is a child of it."""
    return Use(time.process_time(), _peak_bytes(os.getpid()))


def uses(pids: Mapping[str, int]) -> dict[str, Use]:
    """By name."""
    return {name: use_of(pid) for name, pid in pids.items() if pid}


def spent(before: Mapping[str, Use], after: Mapping[str, Use]) -> dict[str, Use]:
    """CPU between two looks, and the peak at the second."""
    none = Use(0.0, 0)
    return {name: Use(use.cpu_s - before.get(name, none).cpu_s, use.peak_bytes) for name, use in after.items()}


async def until_quiet(pids: Callable[[], Mapping[str, int]], timeout_s: float = 20.0) -> None:
    """Wait until these processes hardly use the CPU: Events and tidying go out behind the binds, and count."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        before = sum(use.cpu_s for use in uses(pids()).values())
        await asyncio.sleep(QUIET_WINDOW_S)
        if sum(use.cpu_s for use in uses(pids()).values()) - before < QUIET_SHARE * QUIET_WINDOW_S:
            return


def _peak_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _children(pid: int) -> list[int]:
    """As Linux lists them; a search through all processes would be seen in what is measured."""
    try:
        listed = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(word) for text in listed for word in text.split()]
