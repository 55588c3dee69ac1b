"""Which nodes are written next: so many a second in the whole cluster, falls first, then the largest changes.

What was asked for once is asked for again after a while (`repeats`), and sooner only where the node has shown it
meanwhile and shows nothing now: another manager that writes other values is not answered at its own pace.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from berth.slo_manager.core.offers.lacking import Lacking, Rank
from berth.slo_manager.core.repeats import Asked, first

WRITES_PER_S: Final = 10.0


class _Request(NamedTuple):
    about: object
    asked: Asked
    is_shown: bool = False


class OfferRequests:
    """What was asked for of each node, and who waits for a turn."""

    def __init__(self, per_s: float = WRITES_PER_S) -> None:
        self._per_s = per_s
        self._turns = 0.0
        self._at: float | None = None
        self._waiting: dict[str, Rank] = {}
        self._turn: set[str] = set()
        self._requests: dict[str, _Request] = {}

    @property
    def waiting(self) -> int:
        """How many nodes wait for their turn."""
        return len(self._waiting)

    def clear(self) -> None:
        """What was asked for is not known any more."""
        self._waiting.clear()
        self._turn.clear()
        self._requests.clear()

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._waiting.pop(name, None)
        self._turn.discard(name)
        self._requests.pop(name, None)

    def turns(self, now: float) -> list[str]:
        """Whose turn it is, and whose request is to be repeated. Monotonic seconds."""
        elapsed_s = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._turns = min(self._per_s, self._turns + elapsed_s * self._per_s)
        chosen = heapq.nsmallest(int(self._turns), self._waiting, key=lambda name: (self._waiting[name], name))
        self._turns -= len(chosen)
        for name in chosen:
            del self._waiting[name]
        self._turn.update(chosen)
        again = [name for name, each in self._requests.items() if not each.is_shown and now >= each.asked.again_at]
        return [*chosen, *again]

    def may_send(self, name: str, uid: str, found: Lacking | None, now: float) -> bool:
        """Whether the node is to be asked now; if not yet, it waits for its turn."""
        former = self._requests.get(name)
        if found is None:
            self._waiting.pop(name, None)
            self._turn.discard(name)
            if former is not None:
                self._requests[name] = former._replace(is_shown=True)
            return False
        about = uid, dict(found.written)
        is_same = former is not None and former.about == about and not (former.is_shown and found.is_bare)
        if is_same and former is not None and now < former.asked.again_at:
            return False
        if name not in self._turn:
            self._waiting[name] = found.rank
            return False
        self._turn.discard(name)
        asked = former.asked.again(now) if is_same and former is not None else first(now)
        self._requests[name] = _Request(about, asked)
        return True
