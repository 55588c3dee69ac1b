"""What has to be on the node before a container begins that shares a GPU: HAMi-core's library and its folders.

Blocking. Folders are made below the one for containers alone, by names that a pod's uid and a container's name give.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Final

from berth.contracts.base import Problem
from berth.vendors.nvidia import CACHES, LOCKS
from berth.vendors.vendor import Edits

CONTAINERS: Final = f"{CACHES}/containers"
_NAME: Final = re.compile(r"([A-Za-z0-9-]{1,128})_([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)")
_OPEN: Final = 0o777
_LOCKS: Final = 0o1777


class Folders:
    """Below a root where the node's files are mounted."""

    def __init__(self, root: str) -> None:
        """Take the root; empty: that of the node itself."""
        self._root = root.rstrip("/")

    def prepare(self, edits: Edits) -> Problem | None:
        """Make the folders of a container afresh. A problem where they cannot be made, or a mount has no source."""
        try:
            for folder in edits.folders:
                if not _is_ours(folder):
                    return Problem(field=folder[:200], message="is no folder of a container")
                self._anew(self._path(folder))
            for mount in edits.mounts:
                if mount.source == LOCKS:
                    self._shared(self._path(LOCKS))
                elif not self._path(mount.source).exists():
                    return Problem(field=mount.source, message="is not there on this node")
        except OSError as error:
            return Problem(field=str(error.filename or CONTAINERS)[:200], message=error.strerror or "cannot be made")
        return None

    def sweep(self, pods: Set[str]) -> tuple[Problem, ...]:
        """Remove folders of pods that are not there any more, by their uids."""
        problems = []
        for name in self._names():
            match = _NAME.fullmatch(name)
            if match is None or match[1] in pods:
                continue
            try:
                shutil.rmtree(self._path(f"{CONTAINERS}/{name}"))
            except OSError as error:
                problems.append(Problem(field=f"{CONTAINERS}/{name}", message=error.strerror or "cannot be removed"))
        return tuple(problems)

    def _names(self) -> Iterable[str]:
        try:
            return os.listdir(self._path(CONTAINERS))
        except OSError:
            return ()

    def _anew(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)
        path.mkdir()
        path.chmod(_OPEN)

    def _shared(self, path: Path) -> None:
        if not path.is_dir():
            path.mkdir(parents=True)
            path.chmod(_LOCKS)

    def _path(self, path: str) -> Path:
        return Path(f"{self._root}{path}")


def _is_ours(folder: str) -> bool:
    above, _, name = folder.rpartition("/")
    return above == CONTAINERS and _NAME.fullmatch(name) is not None
