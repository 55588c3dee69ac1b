"""CPU time and peak memory of every process of a run, over its restarts; children count with their parent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import psutil

from berth.cli.stack.stack import Stack

EVERY_S = 1.0
LOAD = "berth (load)"


class Use(NamedTuple):
    """What a process has used: seconds of CPU, peak resident bytes, how often it was started again."""

    name: str
    cpu_s: float
    rss_bytes: int
    starts: int


class Processes:
    """Samples the processes of a stack, and this one."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._cpu: dict[str, dict[int, float]] = {}
        self._rss: dict[str, int] = {}
        self._base: dict[int, float] = {}

    def begin(self) -> None:
        """CPU time counts from here; what was used for starting up does not."""
        self.sample()
        self._base = {pid: cpu_s for pids in self._cpu.values() for pid, cpu_s in pids.items()}

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(EVERY_S)

    def sample(self) -> None:
        """Look at every process once."""
        self._look(LOAD, psutil.Process().pid, children=False)
        for name, process in self._stack.processes.items():
            if process.pid:
                self._look(name, process.pid, children=True)

    def _look(self, name: str, pid: int, *, children: bool) -> None:
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                rss = process.memory_info().rss
            used = times.user + times.system + (times.children_user + times.children_system if children else 0.0)
            self._cpu.setdefault(name, {})[pid] = used
            for child in map(psutil.Process, _children(pid) if children else ()):
                times = child.cpu_times()
                self._cpu[name][child.pid] = times.user + times.system
                rss += child.memory_info().rss
        except psutil.Error:
            return
        self._rss[name] = max(self._rss.get(name, 0), rss)

    def uses(self) -> list[Use]:
        """Every process so far, the busiest first."""
        found = [
            Use(
                name,
                sum(max(0.0, cpu_s - self._base.get(pid, 0.0)) for pid, cpu_s in pids.items()),
                self._rss.get(name, 0),
                self._stack.processes[name].starts if name in self._stack.processes else 1,
            )
            for name, pids in self._cpu.items()
        ]
        return sorted(found, key=lambda use: -use.cpu_s)


def _children(pid: int) -> list[int]:
    """The children that Linux lists for a process; a search through all processes would cost more than it is worth."""
    try:
        listed = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(word) for text in listed for word in text.split()]
