"""What is kept over restarts: the last strategy and the last inventory of this node, so that a restart without a bus
goes on where it was, and the journal of what the node's files had before.

Written whole or not at all. What is read is as suspect as any input: a file that is too large, torn, or of another node
counts as none, and says why.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.slo import NodePod, NodeSLO
from berth.node_qos_enforcer.core import journal

BYTES_MAX = 1 << 18
INVENTORY_BYTES_MAX = 1 << 20
"""What a message of the bus may have."""
PODS_BYTES_MAX = 8 << 20
ASIDE_MAX = 3
"""Files that could not be read are kept so many times."""


class StrategyFile:
    """Where the strategy is kept; without a path it is kept nowhere."""

    def __init__(self, path: str, node: str) -> None:
        """Take the path (empty: none) and the name of the node."""
        self._path = Path(path) if path else None
        self._node = node
        self._kept: NodeSLO | None = None

    def load(self) -> NodeSLO | None:
        """Return what was kept; None when nothing was. Raises InvalidMessage for an unusable file, and OSError."""
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
        """Keep what a strategy says, or forget it (None). Nothing is written when that is what is kept. OSError.

        Of one that is too large the rule for best-effort pods is kept.
        """
        kept = None
        if strategy is not None:
            kept = NodeSLO(node=self._node, cpu_suppress=strategy.cpu_suppress, spec=strategy.spec)
        if self._path is None or kept == self._kept:
            return
        if kept is None:
            self._path.unlink(missing_ok=True)
        else:
            data = encode(kept)
            if len(data) > BYTES_MAX:
                data = encode(NodeSLO(node=self._node, cpu_suppress=kept.cpu_suppress))
            replace_file(self._path, data)
        self._kept = kept


class InventoryFile:
    """Where the inventory is kept; without a path it is kept nowhere."""

    def __init__(self, path: str, node: str) -> None:
        """Take the path (empty: none) and the name of the node."""
        self._path = Path(path) if path else None
        self._node = node
        self._kept: NodeInventory | None = None

    def load(self) -> NodeInventory | None:
        """Return what was kept; None when nothing was. Raises InvalidMessage for an unusable file, and OSError."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                data = file.read(INVENTORY_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if len(data) > INVENTORY_BYTES_MAX:
            raise InvalidMessage("", f"larger than {INVENTORY_BYTES_MAX} bytes")
        kept = decode(data, NodeInventory)
        if kept.node != self._node:
            raise InvalidMessage("node", f"is of node {kept.node[:253]!r}")
        self._kept = kept
        return kept

    def save(self, inventory: NodeInventory | None) -> None:
        """Keep it, or forget it (None). Nothing is written when that is what is kept. OSError."""
        if self._path is None or inventory is self._kept or inventory == self._kept:
            return
        if inventory is None:
            self._path.unlink(missing_ok=True)
        else:
            replace_file(self._path, encode(inventory))
        self._kept = inventory


class PodsFile:
    """Where what SLO says of the node's pods is kept; without a path it is kept nowhere."""

    def __init__(self, path: str, node: str) -> None:
        """Take the path (empty: none) and the name of the node."""
        self._path = Path(path) if path else None
        self._node = node

    def load(self) -> list[NodePod]:
        """Return what was kept. Raises InvalidMessage for an unusable file, and OSError."""
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                data = file.read(PODS_BYTES_MAX + 1)
        except FileNotFoundError:
            return []
        if len(data) > PODS_BYTES_MAX:
            raise InvalidMessage("", f"larger than {PODS_BYTES_MAX} bytes")
        return [each for each in (decode(line, NodePod) for line in data.splitlines()) if each.node == self._node]

    def save(self, pods: Iterable[NodePod]) -> None:
        """Keep them, one a line. Raises OSError."""
        if self._path is not None:
            replace_file(self._path, b"".join(encode(each) + b"\n" for each in pods))


class JournalFile:
    """Where the journal is kept; without a path it is kept nowhere."""

    def __init__(self, path: str) -> None:
        """Take the path (empty: none)."""
        self._path = Path(path) if path else None

    def load(self) -> bytes | None:
        """What was kept, at most one byte more than a journal may have; None when nothing was. Raises OSError."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                return file.read(journal.BYTES_MAX + 1)
        except FileNotFoundError:
            return None

    def save(self, data: bytes) -> None:
        """Keep it: it outlives a loss of power from here on. Raises OSError."""
        if self._path is not None:
            replace_file(self._path, data)

    def keep_aside(self) -> str:
        """Give a file that cannot be read a second name beside it, and return that. Raises OSError.

        The latest `ASIDE_MAX` stay, the first name being the newest.
        """
        if self._path is None:
            return ""
        names = [self._path.with_name(f"{self._path.name}.unreadable-{number + 1}") for number in range(ASIDE_MAX)]
        if names[0].exists() and names[0].samefile(self._path):
            return str(names[0])
        for newer, older in list(itertools.pairwise(names))[::-1]:
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        try:
            names[0].hardlink_to(self._path)
        except OSError:
            self._path.replace(names[0])
        return str(names[0])


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another one, whole or not at all. Raises OSError."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
