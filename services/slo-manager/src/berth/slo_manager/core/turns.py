"""Who may write to the API server next: so many a second, whatever changes at once in a large cluster."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_SLACK = 64


class Budget:
    """Writes that may be asked for now: `at_first` some, then what time adds, up to a second's. Times are monotonic
    seconds."""

    def __init__(self, per_s: float, at_first: float = 0.0) -> None:
        self._per_s = per_s
        self._left = at_first
        self._at: float | None = None

    def left(self, now: float) -> int:
        """How many."""
        elapsed_s = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._left = min(self._per_s, self._left + elapsed_s * self._per_s)
        return int(self._left)

    def spend(self, writes: int) -> None:
        """So many were asked for."""
        self._left -= writes


class Turns(Generic[K]):
    """Who waits, the lowest rank first, then who has waited longest; and whose turn has come."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._waiting: dict[K, tuple[tuple[float, ...], int]] = {}
        self._heap: list[tuple[tuple[float, ...], int, K]] = []
        self._turn: set[K] = set()
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def clear(self) -> None:
        """Nobody waits, and it is nobody's turn."""
        self._waiting.clear()
        self._heap.clear()
        self._turn.clear()

    def forget(self, key: K) -> None:
        """There is nothing to write any more."""
        self._waiting.pop(key, None)
        self._turn.discard(key)

    def may(self, key: K, now: float) -> bool:
        """Whether it may be written now, since its turn has come or nobody waits; if not, it waits for its turn."""
        if key in self._turn:
            self._turn.discard(key)
            return True
        if not self._waiting and self._budget.left(now) >= 1:
            self._budget.spend(1)
            return True
        self.wait(key)
        return False

    def takes(self, key: K) -> bool:
        """Whether its turn has come, which it takes."""
        has_come = key in self._turn
        self._turn.discard(key)
        return has_come

    def wait(self, key: K, rank: tuple[float, ...] = ()) -> None:
        """Wait, in a new place where the rank is another one."""
        before = self._waiting.get(key)
        if before is not None and before[0] == rank:
            return
        self._count += 1
        self._waiting[key] = rank, self._count
        heapq.heappush(self._heap, (rank, self._count, key))
        if len(self._heap) > 2 * len(self._waiting) + _SLACK:
            self._heap = [(*place, waiting) for waiting, place in self._waiting.items()]
            heapq.heapify(self._heap)

    def come(self, now: float) -> list[K]:
        """Whose turn it is now."""
        left = self._budget.left(now)
        chosen: list[K] = []
        while self._heap and len(chosen) < left:
            rank, count, key = heapq.heappop(self._heap)
            if self._waiting.get(key) == (rank, count):
                del self._waiting[key]
                chosen.append(key)
        self._budget.spend(len(chosen))
        self._turn.update(chosen)
        return chosen
