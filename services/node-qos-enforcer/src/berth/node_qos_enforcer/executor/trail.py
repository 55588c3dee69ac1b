"""Which files were written last, for people: by file the last text, when, and how often."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

from msgspec.structs import replace

from berth.contracts.node_audit import TrailEntry

FILES_MAX: Final = 200
TEXT_MAX: Final = 200
PATH_MAX: Final = 400


class Trail:
    """The newest files, each once. Safe to be called from several threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Take the time, unix seconds."""
        self._now = now
        self._lock = Lock()
        self._files: dict[str, TrailEntry] = {}

    def wrote(self, path: str, text: str, *, undone: bool = False) -> None:
        """A file was written, or was given back what it had."""
        with self._lock:
            before = self._files.pop(path, None)
            entry = TrailEntry(path=path[:PATH_MAX], text=text[:TEXT_MAX], at=self._now(), undone=undone)
            self._files[path] = entry if before is None else replace(entry, times=before.times + 1)
            if len(self._files) > FILES_MAX:
                del self._files[next(iter(self._files))]

    @property
    def newest_first(self) -> list[TrailEntry]:
        """What is remembered."""
        with self._lock:
            return list(reversed(self._files.values()))
