"""The kernel's counters of control groups: `perf_event_open`, of which the standard library knows nothing."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
from typing import Final

from berth.node_qos_enforcer.core.laws.counters import ENABLE, FLAGS, GROUP
from berth.node_qos_enforcer.files import DiskTree, Unreadable

_NUMBERS: Final = {"x86_64": 298, "aarch64": 241}
READ_BYTES: Final = 128


class PerfEvents:
    """This machine's. Every call raises OSError."""

    def __init__(self) -> None:
        """Take the call of the system, by the architecture."""
        self._number = _NUMBERS.get(platform.machine())
        self._call = ctypes.CDLL(None, use_errno=True).syscall

    def folder(self, tree: DiskTree, path: str) -> int | None:
        """A descriptor of a control group; None: it is gone."""
        try:
            return tree.open(path)
        except Unreadable as error:
            raise OSError(errno.EACCES, str(error)) from error

    def open(self, attribute: bytes, folder: int, cpu: int, leader: int) -> int:
        """A counter of a group's processes on one CPU, disabled; `leader` -1: it leads others."""
        if self._number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        words = [ctypes.c_long(each) for each in (folder, cpu, leader, FLAGS)]
        found = int(self._call(ctypes.c_long(self._number), ctypes.c_char_p(attribute), *words))
        if found < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return found

    def enable(self, leader: int) -> None:
        """Begin to count, with those that it leads."""
        fcntl.ioctl(leader, ENABLE, GROUP)

    def read(self, leader: int) -> bytes:
        """What it and those that it leads have counted."""
        return os.read(leader, READ_BYTES)

    def close(self, descriptor: int) -> None:
        """Stop counting."""
        os.close(descriptor)
