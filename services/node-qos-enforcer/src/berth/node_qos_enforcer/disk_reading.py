"""Which disks a machine has, by the tools that know: asked seldom, since a child process costs more than it tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.laws.disks import (
    NO_DISKS,
    Disks,
    disk_of_device,
    read_findmnt,
    read_lsblk,
    read_lvs,
    read_vgs,
)
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.doers.network import Run, run

EVERY_S: Final = 30.0
HOST_PROCESS: Final = 1
"""The process whose mounts are the node's."""
_MISSING: Final = 127
_LSBLK: Final = ("lsblk", "-P", "-o", "NAME,TYPE,MAJ:MIN")
_VGS: Final = ("vgs", "--noheadings", "-o", "vg_name,pv_count,pv_name")
_LVS: Final = ("lvs", "--noheadings", "-o", "lv_name,vg_name")
_FINDMNT: Final = ("findmnt", "-P", "-o", "TARGET,SOURCE", "-N", str(HOST_PROCESS))

T = TypeVar("T")


class DiskReader:
    """One machine's disks, remembered for a while."""

    def __init__(self, sys_root: Path, commands: Run = run) -> None:
        """Take where /sys is, and what runs commands."""
        self._sys = sys_root
        self._run = commands
        self._known = NO_DISKS
        self._until_s = float("-inf")
        self.problems: tuple[Problem, ...] = ()

    def disks(self, now_s: float) -> Disks:
        """What is known; a tool that is missing or fails leaves its part empty, and one that fails is named."""
        if now_s < self._until_s:
            return self._known
        self._until_s = now_s + EVERY_S
        self._known, self.problems = self._read()
        return self._known

    def _read(self) -> tuple[Disks, tuple[Problem, ...]]:
        problems: list[Problem] = []
        nothing: dict[str, str] = {}
        numbers, partitions = self._of(
            _LSBLK, lambda text: read_lsblk(text, self._parents()), (nothing, nothing), problems
        )
        groups = self._of(
            _VGS, lambda text: read_vgs(text, lambda name: disk_of_device(numbers, partitions, name)), nothing, problems
        )
        volumes = self._of(_LVS, read_lvs, nothing, problems)
        mounts = self._of(_FINDMNT, read_findmnt, nothing, problems)
        return Disks(numbers, partitions, groups, volumes, mounts), tuple(problems)

    def _of(self, command: tuple[str, ...], read: Callable[[str], T], nothing: T, problems: list[Problem]) -> T:
        try:
            return read(self._text(command, problems))
        except Malformed as error:
            problems.append(Problem(field=error.file, message=error.reason[:300]))
            return nothing

    def _text(self, command: tuple[str, ...], problems: list[Problem]) -> str:
        done = self._run(command, "")
        if not done.code:
            return done.out
        if done.code != _MISSING:
            problems.append(Problem(field=command[0], message=(done.error.strip() or f"failed: {done.code}")[:300]))
        return ""

    def _parents(self) -> dict[str, str]:
        """The disk of each partition: the folder that its own lies in."""
        found: dict[str, str] = {}
        folder = self._sys / "class" / "block"
        try:
            names = os.listdir(folder)
        except OSError:
            return found
        for name in names:
            if (folder / name / "partition").exists():
                found[name] = (folder / name).resolve().parent.name
        return found
