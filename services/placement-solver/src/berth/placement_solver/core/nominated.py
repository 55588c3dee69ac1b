"""Capacity that pods are nominated to: charged like a claim, against everybody but the pod itself (E2).

Who places a pod releases the pod's own nomination first, and for as long as it looks, those of lower pods that STATE
alone shows: nothing in LEDGER has to be displaced for them. What other pods mean to a nominated one is not charged:
nobody is to be placed beside a pod that may never come. It is asked of each node as a hypothesis (`there`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from berth.transaction.claims import Claim, Name
from berth.transaction.nominations import Nomination, Nominations


class Nominated:
    """The nominations that hold capacity; `apply(claim, sign)` charges (1) and gives back (-1)."""

    def __init__(self, apply: Callable[[Claim, int], None]) -> None:
        self._apply = apply
        self._holding = Nominations()
        self._released: dict[Name, Nomination] = {}
        self._left_out: set[Name] = set()
        self._forgotten: dict[Name, str] = {}

    def __bool__(self) -> bool:
        return bool(self._holding)

    def on_change(self, nomination: Nomination, stands: bool) -> None:
        """The book's word: a nomination stands from now on, or no longer. A group that gives back takes nothing."""
        if not nomination.claim.node:
            return
        self._forgotten.pop(nomination.name, None)
        if stands:
            self._holding.set(nomination.name, nomination)
            self._apply(nomination.claim, 1)
            return
        if self._released.pop(nomination.name, None) is not None:
            return
        if self._holding.set(nomination.name, None) is not None:
            self._apply(nomination.claim, -1)

    def of(self, name: Name) -> Nomination | None:
        """What a pod is nominated to, if it holds that."""
        return self._holding.of(name)

    def on(self, node: str) -> list[Nomination]:
        """Those that hold capacity of a node."""
        return list(self._holding.on(node))

    def forget(self, name: Name) -> None:
        """A nomination that STATE alone shows, which its pod could not have: it holds nothing (E3)."""
        nomination = self._holding.set(name, None)
        if nomination is not None:
            self._forgotten[name] = nomination.claim.plan
            self._apply(nomination.claim, -1)

    def forgotten(self, name: Name) -> str:
        """The plan of a nomination that was forgotten and that its pod still shows: it holds for everybody else. Empty:
        there is none."""
        return self._forgotten.get(name, "")

    def release(self, name: Name) -> Nomination | None:
        """Give back what a pod itself is nominated to, until `restore`, or until the book says that it has ended."""
        nomination = self._holding.set(name, None)
        if nomination is not None:
            self._released[name] = nomination
            self._apply(nomination.claim, -1)
        return nomination

    def restore(self, nomination: Nomination) -> None:
        """Charge again what was released."""
        if self._released.pop(nomination.name, None) is not None:
            self._holding.set(nomination.name, nomination)
            self._apply(nomination.claim, 1)

    def restore_all(self) -> None:
        """Charge again what was released for plans that have not come true."""
        for nomination in list(self._released.values()):
            self.restore(nomination)

    @contextmanager
    def heeded_by(self, names: Iterable[Name], priority: int) -> Iterator[None]:
        """With those that count against pods that are placed together: without their own, and without those of lower
        pods that STATE alone shows. They stay listed."""
        own = [each for name in names if (each := self._holding.of(name)) is not None]
        for each in own:
            self._apply(each.claim, -1)
        try:
            with self.without_lower(priority, besides=own):
                yield
        finally:
            for each in own:
                self._apply(each.claim, 1)

    @contextmanager
    def without_lower(self, priority: int, besides: Collection[Nomination] = ()) -> Iterator[None]:
        """Without the nominations of lower pods that STATE alone shows; `besides` are left out already, and so may
        others be around this."""
        taken_out = {*self._left_out, *(each.name for each in besides)}
        lower = [
            each
            for each in self._holding
            if each.decision is None and each.priority < priority and each.name not in taken_out
        ]
        self._left_out.update(each.name for each in lower)
        for each in lower:
            self._apply(each.claim, -1)
        try:
            yield
        finally:
            self._left_out.difference_update(each.name for each in lower)
            for each in lower:
                self._apply(each.claim, 1)
