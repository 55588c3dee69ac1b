"""Which nodes are written next: so many a second in the whole cluster, falls first, then the largest changes.

What was asked for once is asked for again after a while (`repeats`), and sooner only where the node has shown it
meanwhile and shows nothing now: another manager that writes other values is not answered at its own pace.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.slo_manager.core.offers.lacking import Lacking
from berth.slo_manager.core.repeats import Asked, first
from berth.slo_manager.core.turns import Budget, Turns

WRITES_PER_S: Final = 10.0


class _Request(NamedTuple):
    about: object
    asked: Asked
    is_shown: bool = False


class OfferRequests:
    """What was asked for of each node, and who waits for a turn."""

    def __init__(self, per_s: float = WRITES_PER_S) -> None:
        self._turns: Turns[str] = Turns(Budget(per_s))
        self._requests: dict[str, _Request] = {}

    @property
    def waiting(self) -> int:
        """How many nodes wait for their turn."""
        return len(self._turns)

    def clear(self) -> None:
        """What was asked for is not known any more."""
        self._turns.clear()
        self._requests.clear()

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._turns.forget(name)
        self._requests.pop(name, None)

    def turns(self, now: float) -> list[str]:
        """Whose turn it is, and whose request is to be repeated. Monotonic seconds."""
        chosen = self._turns.come(now)
        again = [name for name, each in self._requests.items() if not each.is_shown and now >= each.asked.again_at]
        return [*chosen, *again]

    def may_send(self, name: str, uid: str, found: Lacking | None, now: float) -> bool:
        """Whether the node is to be asked now; if not yet, it waits for its turn."""
        former = self._requests.get(name)
        if found is None:
            self._turns.forget(name)
            if former is not None:
                self._requests[name] = former._replace(is_shown=True)
            return False
        about = uid, dict(found.written)
        is_same = former is not None and former.about == about and not (former.is_shown and found.is_bare)
        if is_same and former is not None and now < former.asked.again_at:
            return False
        if not self._turns.takes(name):
            self._turns.wait(name, found.rank)
            return False
        asked = former.asked.again(now) if is_same and former is not None else first(now)
        self._requests[name] = _Request(about, asked)
        return True
