"""The one door to the kernel's files: a tree with a root, so that a test's directory serves as well as the machine.

Reads are bounded in size. A file that is gone is `None`, not an error: control groups vanish between listing and
reading all the time. A file that is there but will not be read is `Unreadable`, which names it. Nothing here writes.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Protocol

MAX_BYTES = 1 << 20
MAX_ENTRIES = 16_384
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV})
_CHUNK = 1 << 16


class Unreadable(Exception):  # noqa: N818 - the name is the finding
    """A file exists and cannot be read (permission, not supported by this kernel, too large)."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file and the reason."""
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class FileTree(Protocol):
    """Files below one root; paths are relative to it, with `/` between steps and `""` for the root itself."""

    def read(self, path: str) -> str | None:
        """Return the whole text of a file, None when it is not there. Raises Unreadable."""
        ...

    def directories(self, path: str) -> list[str]:
        """Return the names of the directories in a directory, sorted; empty when it is not there. Raises Unreadable."""
        ...

    def incarnations(self, path: str) -> list[tuple[str, int]]:
        """Return the names of the directories in a directory, sorted, each with a number that differs when it was
        removed and made anew. Empty when it is not there. Raises Unreadable."""
        ...

    def incarnation(self, path: str) -> int | None:
        """Return a number that differs when a directory was removed and made anew, None when it is not there."""
        ...


class DiskTree:
    """A tree on disk (or in /proc, /sys)."""

    def __init__(self, root: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> None:
        """Take the root, and how large a file may be."""
        self.root = Path(root)
        self._prefix = str(self.root).rstrip("/") + "/"
        self._max_bytes = max_bytes

    def read(self, path: str) -> str | None:
        """Return the text of a file; bytes that are not UTF-8 are replaced, for a parser to refuse."""
        descriptor = self.open(path)
        if descriptor is None:
            return None
        try:
            return self._text(path, descriptor)
        except OSError as error:
            return self.gone(path, error)
        finally:
            os.close(descriptor)

    def open(self, path: str) -> int | None:
        """Return a descriptor of a file, which the caller closes; None when it is not there. Raises Unreadable."""
        try:
            return os.open(self._full(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            return self.gone(path, error)

    def directories(self, path: str) -> list[str]:
        """Return the names of the directories in a directory; links to directories count."""
        return [name for name, _ in self.incarnations(path)]

    def incarnations(self, path: str) -> list[tuple[str, int]]:
        """Return the directories in a directory with their inodes."""
        found: list[tuple[str, int]] = []
        try:
            with os.scandir(self._full(path)) as entries:
                for count, entry in enumerate(entries):
                    if count >= MAX_ENTRIES:
                        raise Unreadable(path, f"more than {MAX_ENTRIES} entries")
                    if entry.is_dir():
                        found.append((entry.name, entry.inode()))
        except OSError as error:
            self.gone(path, error)
            return []
        return sorted(found)

    def incarnation(self, path: str) -> int | None:
        """Return the inode of a directory; kernfs never uses one twice in a row."""
        try:
            return os.stat(self._full(path)).st_ino
        except OSError as error:
            self.gone(path, error)
            return None

    def _full(self, path: str) -> str:
        assert ".." not in path.split("/"), path  # noqa: S101 - paths are built by code, never from input
        return self._prefix + path

    def _text(self, path: str, descriptor: int) -> str:
        chunks: list[bytes] = []
        size = 0
        while chunk := os.read(descriptor, _CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                raise Unreadable(path, f"larger than {self._max_bytes} bytes")
        return b"".join(chunks).decode(errors="replace")

    @staticmethod
    def gone(path: str, error: OSError) -> None:
        """Pass over what says that a file is not there. Raises Unreadable for any other error."""
        if error.errno not in _GONE:
            raise Unreadable(path, errno.errorcode.get(error.errno or 0, str(error))) from error
