"""Descriptors of files that are read in every round, kept open: a read is one call of the kernel then, not four.

A group that is gone says so when its file is read, and the file is opened anew. Whoever knows which incarnation of a
group it means says that as well. What nobody has read for a while is closed, and there are never more than so many.
Not safe to be used by two threads at once.
"""

from __future__ import annotations

import os
import resource
from typing import Final, NamedTuple

from berth.node_qos_enforcer.files import DiskTree

FILES_MAX: Final = 8_192
SPARE: Final = 512
"""Descriptors that the rest of the process may need."""
READ_BYTES: Final = 1 << 14
"""Files of one record, as all counters are, are read at once; one that is longer is read anew, as any other file."""
SWEEP_ROUNDS: Final = 30


class _Kept(NamedTuple):
    descriptor: int
    incarnation: int


class KeptFiles:
    """Files below one tree."""

    def __init__(self, tree: DiskTree, most: int = FILES_MAX) -> None:
        """Nothing is open; `most` files are kept open at once."""
        self._tree = tree
        self._most = most
        self._open: dict[str, _Kept] = {}
        self._read: set[str] = set()
        self._rounds = 0

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def read(self, path: str, incarnation: int = 0) -> str | None:
        """The text of a file, None when it is not there. Raises Unreadable.

        Args:
            path: below the root of the tree.
            incarnation: which group of the name is meant; 0 where no two of them ever have it.
        """
        kept = self._open.get(path)
        if kept is not None and kept.incarnation == incarnation:
            self._read.add(path)
            try:
                data = os.pread(kept.descriptor, READ_BYTES, 0)
            except OSError:
                self._close(path)
            else:
                return data.decode(errors="replace") if len(data) < READ_BYTES else self._tree.read(path)
        elif kept is not None:
            self._close(path)
        if len(self._open) >= self._most:
            return self._tree.read(path)
        descriptor = self._tree.open(path)
        if descriptor is None:
            return None
        self._open[path] = _Kept(descriptor, incarnation)
        self._read.add(path)
        try:
            data = os.pread(descriptor, READ_BYTES, 0)
        except OSError as error:
            self._close(path)
            return self._tree.gone(path, error)
        return data.decode(errors="replace") if len(data) < READ_BYTES else self._tree.read(path)

    def end_round(self) -> None:
        """A round is over: now and then what was not read since is closed."""
        self._rounds += 1
        if self._rounds % SWEEP_ROUNDS:
            return
        for path in [each for each in self._open if each not in self._read]:
            self._close(path)
        self._read.clear()

    def close(self) -> None:
        """Close all."""
        for path in list(self._open):
            self._close(path)

    def _close(self, path: str) -> None:
        kept = self._open.pop(path, None)
        if kept is not None:
            os.close(kept.descriptor)


def most_files() -> int:
    """How many this process may keep open: what its limit is raised to, but for what the rest of it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX + SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    left = FILES_MAX if soft == resource.RLIM_INFINITY else soft - SPARE
    return max(min(left, FILES_MAX), 0)
