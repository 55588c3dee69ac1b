"""Which pods the decisions on Reservations take over: from its decision on each is a user of that Reservation.

This is R19. The pod's own decision, if there is one, was made before and names no Reservation; its note follows later.
Once the decision on the Reservation is settled the pod is by itself again.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts.ledger import Decision
from berth.contracts.state import Pod
from berth.rules.reservation_take_over import TAKE_OVER

Name = tuple[str, str]
Taken = tuple[str, str]
"""Uid of a pod, and its node."""


class TakeOvers:
    """What standing decisions take over, by Reservation and by pod."""

    def __init__(self) -> None:
        self._of: dict[Name, dict[Taken, Name]] = {}
        self._by: dict[Taken, dict[Name, str]] = {}

    def see(self, name: Name, standing: Iterable[Decision]) -> set[Name]:
        """The decisions that stand for a Reservation; the names of pods for which the answer may be another one."""
        new: dict[Taken, Name] = {}
        uids: dict[Taken, str] = {}
        for decision in standing:
            for step in decision.before if not decision.nominates else ():
                if step.action == TAKE_OVER:
                    taken = (step.pod_uid, decision.node)
                    new[taken], uids[taken] = (step.namespace, step.pod), decision.uid
        old = self._of.get(name, {})
        if not new and not old:
            return set()
        before = {taken: self._by[taken].get(name) for taken in old}
        for taken in old.keys() - new.keys():
            self._by[taken].pop(name)
            if not self._by[taken]:
                del self._by[taken]
        for taken, uid in uids.items():
            self._by.setdefault(taken, {})[name] = uid
        self._of[name] = new
        if not new:
            del self._of[name]
        return {{**old, **new}[taken] for taken in old.keys() | new.keys() if before.get(taken) != uids.get(taken)}

    def reservation_of(self, pod: Pod) -> str:
        """Uid of the Reservation that takes over this pod; empty: none does."""
        by = self._by.get((pod.uid, pod.node)) if self._by else None
        return by[min(by)] if by else ""

    def takers_of(self, pod_uid: str, node: str) -> Iterable[Name]:
        """The Reservations that take over a pod. More than one is the sign of a loss."""
        return self._by.get((pod_uid, node), ())
