"""What the agents of nodes ask to have evicted: METRICS, `pressure.<node>`.

What was in the bucket before it was read is nobody's need any more: an agent that still has one says it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.node_pressure import NodePressure
from berth.contracts.subjects import parts

PRESSURE_KEYS: Final = "pressure.>"


class Pressures:
    """By node: the newest, and when the bus stored it, unix seconds."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.unreadable = 0
        self._newest: dict[str, tuple[NodePressure, float]] = {}
        self._is_at_end = False
        self._mark = mark

    def of(self, node: str) -> tuple[NodePressure | None, float]:
        """What its agent asks, None: nothing; and since when."""
        return self._newest.get(node, (None, 0.0))

    def reset(self) -> None:
        """The bucket begins anew."""
        self._newest.clear()
        self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. One that cannot be read asks for nothing."""
        try:
            _, name = parts(entry.key)
        except ValueError:
            self.unreadable += 1
            return
        self._newest.pop(name, None)
        if not entry.deleted and self._is_at_end:
            try:
                message = decode(entry.value, NodePressure)
                if message.node != name:
                    raise InvalidMessage("node", "is not the name in the key")
                self._newest[name] = message, entry.stored_s
            except InvalidMessage:
                self.unreadable += 1
        self._mark(name)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self._is_at_end = True
