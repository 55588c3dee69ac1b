"""Looks at groups to see why somebody is slow: counters of the processor, and pressure.

A container is counted for ten rounds in sixty. Two descriptors for each CPU and container are many, so there are never
more than so many at once, and containers take turns. Pressure is read twice a minute: it is an average of ten seconds
and more.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from berth.contracts.base import Problem
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.laws.counters import CYCLES as CYCLE_EVENT
from berth.node_qos_enforcer.core.laws.counters import INSTRUCTIONS, attribute, read_group, total
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.sample import RESOURCES
from berth.node_qos_enforcer.core.strategies.knobs import CYCLES, STALLS
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.doers.doing import Done
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.interference_figures import InterferenceFigures

COUNTERS_MAX: Final = 2_048
WINDOW_ROUNDS: Final = 10
EVERY_ROUNDS: Final = 60
PRESSURE_ROUNDS: Final = 30
AGAIN_ROUNDS: Final = 600
"""Where counters cannot be had, they are asked for again after so many."""
PERF_V1: Final = "perf_event"
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE})


class Kernel(Protocol):
    """The kernel's side (`perf.PerfEvents`). Every call raises OSError."""

    def folder(self, tree: DiskTree, path: str) -> int | None:
        """A descriptor of a control group; None: it is gone."""

    def open(self, attribute: bytes, folder: int, cpu: int, leader: int) -> int:
        """A counter of a group on one CPU."""

    def enable(self, leader: int) -> None:
        """Begin to count."""

    def read(self, leader: int) -> bytes:
        """What was counted."""

    def close(self, descriptor: int) -> None:
        """Stop counting."""


class _Counting(NamedTuple):
    folder: int
    leaders: tuple[int, ...]
    others: tuple[int, ...]


class CycleDoer:
    """Counts cycles and instructions of containers."""

    knobs = frozenset({CYCLES})

    def __init__(
        self, kernel: Kernel, tree: DiskTree, cpus: Callable[[], Iterable[int]], figures: InterferenceFigures
    ) -> None:
        """Take the kernel, the root of control groups, who says which CPUs are online, and where figures are shown."""
        self._kernel = kernel
        self._tree = tree
        self._cpus = cpus
        self._figures = figures
        self._counting: dict[str, _Counting] = {}
        self._counted: dict[str, int] = {}
        self._rounds = 0
        self._began = 0
        self._until = 0
        self._done = Done()

    def bring(self, wanted: Mapping[Ref, str]) -> Done:
        """See `Doer`."""
        self._rounds += 1
        groups = {ref.group: value for ref, value in wanted.items()}
        for gone in (self._counted.keys() | self._counting.keys()) - groups.keys():
            self._counted.pop(gone, None)
            self._figures.counts.pop(gone, None)
            self._stop(gone)
        if self._counting and self._rounds - self._began >= WINDOW_ROUNDS:
            for group in list(self._counting):
                self._finish(group, groups[group])
        if groups and not self._counting and self._rounds >= self._until:
            self._done = self._begin(groups)
        return self._done if groups else Done()

    def _begin(self, groups: Iterable[str]) -> Done:
        self._began = self._rounds
        try:
            cpus = sorted(self._cpus())
        except (Malformed, Unreadable) as error:
            return Done(problems=(Problem(field=CYCLES, message=str(error)[:300]),))
        due = [each for each in groups if self._rounds - self._counted.get(each, -EVERY_ROUNDS) >= EVERY_ROUNDS]
        due.sort(key=lambda each: self._counted.get(each, -EVERY_ROUNDS))
        for group in due[: max(COUNTERS_MAX // (2 * max(len(cpus), 1)), 1)]:
            self._counted[group] = self._rounds
            try:
                self._count(group, cpus)
            except OSError as error:
                if error.errno in _FULL and self._counting:
                    break
                return self._refused(error)
        return Done()

    def _count(self, group: str, cpus: Iterable[int]) -> None:
        where = cgroups.detect_layout(self._tree).cpu
        path = group if where is None or where.version == 2 else f"{PERF_V1}/{group}"
        folder = self._kernel.folder(self._tree, path)
        if folder is None:
            return
        leaders: list[int] = []
        others: list[int] = []
        try:
            for cpu in cpus:
                leaders.append(self._kernel.open(attribute(CYCLE_EVENT), folder, cpu, -1))
                others.append(self._kernel.open(attribute(INSTRUCTIONS), folder, cpu, leaders[-1]))
            for leader in leaders:
                self._kernel.enable(leader)
        except OSError:
            for each in (*others, *leaders, folder):
                self._kernel.close(each)
            raise
        self._counting[group] = _Counting(folder, tuple(leaders), tuple(others))

    def _finish(self, group: str, whose: str) -> None:
        try:
            found = total(read_group(self._kernel.read(each)) for each in self._counting[group].leaders)
        except (OSError, Malformed):
            found = None
        if found is None:
            self._figures.counts.pop(group, None)
        else:
            self._figures.counts[group] = (whose, found)
        self._stop(group)

    def _stop(self, group: str) -> None:
        counting = self._counting.pop(group, None)
        for each in () if counting is None else (*counting.others, *counting.leaders, counting.folder):
            self._kernel.close(each)

    def _refused(self, error: OSError) -> Done:
        """Counters cannot be had: that rights are missing is a problem, that a machine has none is not."""
        for group in list(self._counting):
            self._stop(group)
        self._until = self._rounds + AGAIN_ROUNDS
        if error.errno in _DENIED:
            message = f"{error.strerror}: counting takes CAP_PERFMON (Linux 5.8) and a seccomp profile that allows it"
            return Done(problems=(Problem(field=CYCLES, message=message),))
        reason = errno.errorcode.get(error.errno or 0, str(error))
        return Done(lacks=f"the processor's counters cannot be had: {reason}", lacking=self.knobs)


class StallDoer:
    """Reads how long pods and containers wait."""

    knobs = frozenset({STALLS})

    def __init__(self, tree: DiskTree, figures: InterferenceFigures) -> None:
        """Take the root of control groups, and where figures are shown."""
        self._tree = tree
        self._figures = figures
        self._rounds = 0
        self._wanted: Mapping[Ref, str] = {}
        self._turns: list[list[tuple[str, str]]] = []

    def bring(self, wanted: Mapping[Ref, str]) -> Done:
        """See `Doer`."""
        self._rounds += 1
        if wanted is not self._wanted:
            self._take(wanted)
        if not wanted:
            return Done()
        layout = cgroups.detect_layout(self._tree)
        if layout.pressure is None:
            return Done(lacks="control groups of version 1 tell no pressure", lacking=self.knobs)
        for group, whose in self._turns[self._rounds % PRESSURE_ROUNDS]:
            found = {each: self._read(layout, group, each) for each in RESOURCES}
            known = {name: text for name, text in found.items() if text is not None}
            if known:
                self._figures.stalls[group] = (whose, known)
            else:
                self._figures.stalls.pop(group, None)
        return Done()

    def _take(self, wanted: Mapping[Ref, str]) -> None:
        self._wanted = wanted
        self._turns = [[] for _ in range(PRESSURE_ROUNDS)]
        groups = {ref.group: value for ref, value in wanted.items()}
        for group, whose in groups.items():
            self._turns[crc32(group.encode()) % PRESSURE_ROUNDS].append((group, whose))
        for gone in self._figures.stalls.keys() - groups.keys():
            del self._figures.stalls[gone]

    def _read(self, layout: cgroups.Layout, group: str, resource: str) -> str | None:
        """None: it is gone, or the kernel does not tell."""
        path = cgroups.pressure_path(layout, group, resource)
        try:
            return None if path is None else self._tree.read(path)
        except Unreadable:
            return None
