"""This machine, read for the vendors: files below the roots that the settings name, and NVIDIA's library.

Vendors ask by the host's paths (`/sys/bus/pci/devices`); what is asked for elsewhere is not there. Nothing here writes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.vendors.probe import DeviceNumbers, NvmlFacts


class HostProbe:
    """A `berth.vendors.probe.Probe`. One instance serves one look: NVIDIA's library is asked once."""

    def __init__(self, roots: Mapping[str, str], nvml: Callable[[], NvmlFacts | None] = lambda: None) -> None:
        """Take where each of the host's folders is to be found, and who asks the library."""
        self._roots = {name.rstrip("/"): Path(os.path.realpath(root)) for name, root in roots.items()}
        self._trees = {name: DiskTree(root) for name, root in self._roots.items()}
        self._ask = nvml
        self._facts: NvmlFacts | None = None
        self._is_asked = False

    def read(self, path: str) -> str | None:
        """See `Probe`."""
        placed = self._placed(path)
        if placed is None:
            return None
        try:
            return self._trees[placed[0]].read(placed[1])
        except Unreadable:
            return None

    def names(self, path: str) -> tuple[str, ...] | None:
        """See `Probe`."""
        placed = self._placed(path)
        if placed is None:
            return None
        try:
            return tuple(os.listdir(self._roots[placed[0]] / placed[1]))
        except OSError:
            return None

    def resolve(self, path: str) -> str | None:
        """See `Probe`. A link that leads out of its root leads nowhere."""
        placed = self._placed(path)
        if placed is None:
            return None
        name, rest = placed
        try:
            real = (self._roots[name] / rest).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return f"{name}/{real.relative_to(self._roots[name])}" if real.is_relative_to(self._roots[name]) else None

    def device(self, path: str) -> DeviceNumbers | None:
        """See `Probe`."""
        placed = self._placed(path)
        if placed is None:
            return None
        try:
            found = os.stat(self._roots[placed[0]] / placed[1])
        except OSError:
            return None
        is_block = stat.S_ISBLK(found.st_mode)
        if not is_block and not stat.S_ISCHR(found.st_mode):
            return None
        return DeviceNumbers(major=os.major(found.st_rdev), minor=os.minor(found.st_rdev), is_block=is_block)

    def nvml(self) -> NvmlFacts | None:
        """See `Probe`."""
        if not self._is_asked:
            self._facts, self._is_asked = self._ask(), True
        return self._facts

    def _placed(self, path: str) -> tuple[str, str] | None:
        """The root that a path is below, and the rest of it; None for what is below none, or climbs."""
        if ".." in path.split("/") or "\0" in path:
            return None
        for name in self._roots:
            if path == name or path.startswith(f"{name}/"):
                return name, path[len(name) + 1 :]
        return None
