"""Placements from bind to end: which pods hold something under a plan of ours, and which of them have come to an end.

Each end is reported once. What may have ended while nobody looked (a deletion marker, or a pod that has finished, in a
view that begins) is a doubt: the caller asks the kept events whether that end was published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berth.contracts.state import Pod
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name

DELETED = "deleted"


class Placements:
    """`on_end(pod, reason)` is called once per placement; the pod is as it was seen last with its node."""

    def __init__(self, on_end: Callable[[Pod, str], None]) -> None:
        self.doubts: dict[Name, None] = {}
        """Names of pods that may have ended unseen, in the order found."""
        self._on_end = on_end
        self._held: dict[Name, Pod] = {}
        self._over: dict[Name, Pod] = {}
        self._live = False
        self._anew = False

    def reset(self) -> None:
        """The view starts over; what is held is compared with it once it is complete again."""
        self._live = False
        self._anew = bool(self._held)

    def end(self, pods: Mapping[Name, Pod], through: int) -> None:
        """The end of the view was reached: from the first time on, changes are news.

        `through`: the version through which the view of pods is complete. One that begins anew may be older than what
        was seen before: of what has come since then it proves nothing (R4).
        """
        self._live = True
        if not self._anew:
            return
        absent = [name for name, pod in self._held.items() if name not in pods or pods[name].uid != pod.uid]
        gone = [name for name in absent if self._held[name].version <= through]
        self._anew = len(gone) < len(absent)
        for name in gone:
            self.gone(name)

    def seen(self, name: Name, pod: Pod) -> None:
        """The view shows a pod."""
        before = self._held.get(name)
        if before is not None and pod.version < before.version:
            return  # a view that begins anew shows what was so before
        if before is not None and before.uid != pod.uid:
            self.gone(name)
            before = None
        if not pod.node or not pod.plan:
            return
        if pod.phase not in FINISHED_PHASES:
            self._held[name] = pod
        elif name not in self._over or self._over[name].uid != pod.uid:
            self._held.pop(name, None)
            self._over[name] = pod
            if before is not None or self._live:
                self._on_end(pod, pod.phase.lower())
            else:
                self.doubts[name] = None

    def gone(self, name: Name, version: int = 0) -> None:
        """The view shows that there is no such pod any more; `version` of that news, 0 where nobody knows it."""
        before = self._held.get(name)
        if before is not None and 0 < version < before.version:
            return  # the end of a predecessor, in a view that begins anew
        pod, over = self._held.pop(name, None), self._over.pop(name, None)
        if pod is not None:
            self._on_end(pod, DELETED)
        elif over is None and not self._live:
            self.doubts[name] = None

    def reason(self, name: Name, uid: str) -> str:
        """How a pod that was bound has ended, empty while it has not."""
        if name in self._held and self._held[name].uid == uid:
            return ""
        over = self._over.get(name)
        return over.phase.lower() if over is not None and over.uid == uid else DELETED
