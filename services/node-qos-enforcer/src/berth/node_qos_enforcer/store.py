"""The last strategy of this node in a small file, so that a restart without a bus goes on where it was.

Written whole or not at all. What is read is as suspect as any input: a file that is too large, torn, or of another node
counts as none, and says why.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodeSLO

BYTES_MAX = 4_096


class StrategyFile:
    """Where the strategy is kept; without a path it is kept nowhere."""

    def __init__(self, path: str, node: str) -> None:
        """Take the path (empty: none) and the name of the node."""
        self._path = Path(path) if path else None
        self._node = node
        self._kept: NodeSLO | None = None

    def load(self) -> NodeSLO | None:
        """Return what was kept; None when nothing was. Raises InvalidMessage for a file that is of no use, and OSError."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if len(data) > BYTES_MAX:
            raise InvalidMessage("", f"larger than {BYTES_MAX} bytes")
        kept = decode(data, NodeSLO)
        if kept.node != self._node:
            raise InvalidMessage("node", f"is of node {kept.node[:253]!r}")
        self._kept = kept
        return kept

    def save(self, strategy: NodeSLO | None) -> None:
        """Keep the rule of a strategy, or forget it (None). Nothing is written when that is what is kept. OSError."""
        kept = None if strategy is None else NodeSLO(node=self._node, cpu_suppress=strategy.cpu_suppress)
        if self._path is None or kept == self._kept:
            return
        if kept is None:
            self._path.unlink(missing_ok=True)
        else:
            self._replace(self._path, encode(kept))
        self._kept = kept

    @staticmethod
    def _replace(path: Path, data: bytes) -> None:
        new = path.with_name(path.name + ".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            new.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
