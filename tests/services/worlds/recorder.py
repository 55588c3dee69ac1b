"""A folder in memory that may be full or gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from berth.recorder.core.keeping import File


class MemoryDisk:
    """Outlives its process. `room` is how many bytes it takes in all, None: any number; of a write that does not fit
    there is what does. `was_gone`: somebody has asked while it was."""

    def __init__(self) -> None:
        self.held: dict[str, bytearray] = {}
        self.room: int | None = None
        self.is_gone = self.was_gone = False

    def files(self) -> Sequence[File]:
        self._look()
        return [File(name, len(data)) for name, data in self.held.items()]

    def read(self, name: str) -> bytes:
        self._look()
        return bytes(self.held[name])

    def append(self, name: str, data: bytes) -> None:
        self._look()
        left = len(data) if self.room is None else max(self.room - sum(map(len, self.held.values())), 0)
        self.held.setdefault(name, bytearray()).extend(data[:left])
        if left < len(data):
            raise OSError(28, "No space left on device")

    def cut(self, name: str, size: int) -> None:
        self._look()
        del self.held[name][size:]

    def delete(self, name: str) -> None:
        self._look()
        self.held.pop(name, None)

    def put(self, folder: Path) -> None:
        """Write all of it to a real folder."""
        for name, data in self.held.items():
            (folder / name).write_bytes(bytes(data))

    def _look(self) -> None:
        if self.is_gone:
            self.was_gone = True
            raise OSError(5, "Input/output error")
