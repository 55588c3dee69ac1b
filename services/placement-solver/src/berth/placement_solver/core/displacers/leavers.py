"""Of which priorities those are who might have to leave or to give way: asked for each pod that no node takes, so that
who is of the lowest is refused without a look at each node."""

from __future__ import annotations

from collections import Counter

from berth.contracts.state import Pod
from berth.rules.preemption import why_protected
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name
from berth.transaction.nominations import Nomination


class Leavers:
    """Counted by priority: a change costs the same however many there are, a question grows with the number of
    different priorities."""

    def __init__(self) -> None:
        self._pods: dict[Name, int] = {}
        self._nominations: dict[Name, int] = {}
        self._counts: Counter[int] = Counter()
        self.terminating: set[Name] = set()
        """Bound pods that are terminating, for whatever reason."""

    def see_pod(self, name: Name, pod: Pod | None) -> None:
        """A pod is shown, shown otherwise or, with None, gone. One that is protected leaves for nobody."""
        if pod is not None and pod.node and pod.deleting:
            self.terminating.add(name)
        else:
            self.terminating.discard(name)
        is_there = pod is not None and pod.node and pod.phase not in FINISHED_PHASES and not why_protected(pod)
        self._set(self._pods, name, pod.template.priority if pod is not None and is_there else None)

    def on_nomination(self, nomination: Nomination, stands: bool) -> None:
        """A nomination stands from now on, or no longer."""
        self._set(self._nominations, nomination.name, nomination.priority if stands else None)

    def forget_pods(self) -> None:
        """STATE starts over."""
        self.terminating.clear()
        for name in list(self._pods):
            self._set(self._pods, name, None)

    def have_below(self, priority: int) -> bool:
        """Whether one of them is of a lower priority."""
        return any(each < priority for each in self._counts)

    def _set(self, of: dict[Name, int], name: Name, priority: int | None) -> None:
        old = of.pop(name, None)
        if old is not None:
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        if priority is not None:
            of[name] = priority
            self._counts[priority] += 1
