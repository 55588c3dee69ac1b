"""The folder of segments. Every call may raise OSError: the folder is full, or gone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from berth.recorder.core.keeping import File


class Disk(Protocol):
    """A folder of files."""

    def files(self) -> Sequence[File]:
        """What is there."""
        ...

    def read(self, name: str) -> bytes:
        """A whole file."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Write at the end of a file, which is made when it is new."""
        ...

    def cut(self, name: str, size: int) -> None:
        """Leave only so many bytes of a file."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file."""
        ...


class Folder:
    """A folder of this machine, which is made when it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def files(self) -> Sequence[File]:
        """See `Disk`."""
        self._path.mkdir(parents=True, exist_ok=True)
        return [File(each.name, each.stat().st_size) for each in self._path.iterdir() if each.is_file()]

    def read(self, name: str) -> bytes:
        """See `Disk`."""
        return (self._path / name).read_bytes()

    def append(self, name: str, data: bytes) -> None:
        """See `Disk`."""
        with (self._path / name).open("ab", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]

    def cut(self, name: str, size: int) -> None:
        """See `Disk`."""
        os.truncate(self._path / name, size)

    def delete(self, name: str) -> None:
        """See `Disk`."""
        (self._path / name).unlink(missing_ok=True)
