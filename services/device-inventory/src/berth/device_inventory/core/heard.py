"""Which agents say nothing any more. An agent's word is as old as its time here: clocks differ.

A bucket that was lost takes that word with it. Then the time goes on, or begins where the node shows a label that
follows its agent.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.state import Node
from berth.device_inventory.core.runtime import STALE_S, follows_agent, has_our_isolation

NEVER: Final = -1
"""The sequence of a word that was never heard here."""


class Heard:
    """The last word of each node's agent, by its sequence, and since when it stands. Times are monotonic seconds."""

    def __init__(self) -> None:
        """Nothing was heard."""
        self._heard: dict[str, tuple[int, float]] = {}
        self.silent: set[str] = set()
        """Nodes whose agent says nothing any more."""

    def due(self, now_s: float) -> set[str]:
        """Nodes whose agent has become silent since they were looked at."""
        return {name for name, (_, since) in self._heard.items() if now_s - since >= STALE_S} - self.silent

    def is_silent(self, node: Node, sequence: int | None, *, is_withdrawn: bool, now_s: float) -> bool:
        """Whether the agent of a node says nothing any more. `sequence`: of the word that is there, None without one.
        `is_withdrawn`: it was taken back."""
        name = node.name
        heard = self._heard.get(name)
        if sequence is not None:
            if heard is None or heard[0] != sequence:
                self._heard[name] = (sequence, now_s)
        elif is_withdrawn or not (follows_agent(node) or has_our_isolation(node)):
            self._heard.pop(name, None)
        elif heard is None and follows_agent(node):
            self._heard[name] = (NEVER, now_s)
        is_silent = name in self._heard and now_s - self._heard[name][1] >= STALE_S
        (self.silent.add if is_silent else self.silent.discard)(name)
        return is_silent

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._heard.pop(name, None)
        self.silent.discard(name)

    def clear(self) -> None:
        """Another replica was active meanwhile."""
        self._heard.clear()
        self.silent.clear()
