"""What all nodes offer together, which feeds the default tree; kept up to date node by node."""

from __future__ import annotations

from collections.abc import Mapping

from berth.resources.amounts import Amounts, add_into, subtract_from


class Offered:
    """The sum over nodes, whether or not they are ready. A resource that no node names any more is not in it."""

    def __init__(self) -> None:
        self.total: Amounts = {}
        self.has_moved = False
        """It may be another than when this was last set to False."""
        self._nodes: dict[str, Amounts] = {}
        self._naming: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def put(self, name: str, allocatable: Mapping[str, int]) -> None:
        """A node was seen."""
        amounts = {key: max(0, amount) for key, amount in allocatable.items()}
        if self._nodes.get(name) == amounts:
            return
        self.remove(name)
        self._nodes[name] = amounts
        self.has_moved = True
        add_into(self.total, amounts)
        for key in amounts:
            self._naming[key] = self._naming.get(key, 0) + 1

    def remove(self, name: str) -> None:
        """A node is gone."""
        amounts = self._nodes.pop(name, None)
        if amounts is None:
            return
        self.has_moved = True
        subtract_from(self.total, amounts)
        for key in amounts:
            self._naming[key] -= 1
            if not self._naming[key]:
                del self._naming[key], self.total[key]

    def clear(self) -> None:
        """No node is known any more."""
        for kept in (self._nodes, self.total, self._naming):
            kept.clear()
