"""Which annotations of nodes are to be asked for now, in their turn.

What was asked for once is asked for again after a while (`repeats`), whether the node has shown it meanwhile or not: a
second manager that writes other values is not answered at its own pace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from berth.slo_manager.core.ratios import Ratios
from berth.slo_manager.core.repeats import Asked, first
from berth.slo_manager.core.turns import Turns

KIND = "annotations"


class _Request(NamedTuple):
    uid: str
    wanted: Mapping[str, str | None]
    asked: Asked
    is_shown: bool


class AnnotationRequests:
    """What was asked for of each node, by name."""

    def __init__(self, turns: Turns[tuple[str, str]]) -> None:
        self._turns = turns
        self._requests: dict[str, _Request] = {}

    @property
    def open(self) -> int:
        """How many nodes do not show what was asked for."""
        return sum(not each.is_shown for each in self._requests.values())

    def due(self, now: float) -> list[str]:
        """Nodes that have shown for a while what was asked for. Those that have not wait for a turn."""
        found = []
        for name, each in self._requests.items():
            if now < each.asked.again_at:
                continue
            if each.is_shown:
                found.append(name)
            else:
                self._turns.wait((KIND, name))
        return found

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._requests.pop(name, None)
        self._turns.forget((KIND, name))

    def clear(self) -> None:
        """What was asked for is not known any more."""
        self._requests.clear()

    def of(self, name: str, uid: str, ratios: Ratios, now: float) -> Mapping[str, str | None]:
        """What of a node's annotations is to be asked for now; nothing: empty."""
        former = self._requests.get(name)
        if former is not None and (former.uid, former.wanted) != (uid, ratios.wanted):
            former = None
        if former is not None and now < former.asked.again_at:
            self._requests[name] = former._replace(is_shown=not ratios.lacking)
            return {}
        if not ratios.lacking:
            self._requests.pop(name, None)
            self._turns.forget((KIND, name))
            return {}
        if not self._turns.may((KIND, name), now):
            return {}
        asked = first(now) if former is None else former.asked.again(now)
        self._requests[name] = _Request(uid, ratios.wanted, asked, is_shown=False)
        return ratios.lacking
