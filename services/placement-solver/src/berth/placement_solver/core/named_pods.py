"""Pods that owners of Reservations name one by one, so that not everybody who is like them is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.contracts.kube import ReservationOwner
from berth.contracts.state import Pod


class NamedPods:
    """Their names and uids, by the id of what names them."""

    def __init__(self) -> None:
        self._named_by: dict[str, list[str]] = {}
        self._words: Counter[str] = Counter()

    def clear(self) -> None:
        """Forget all of them."""
        self._named_by.clear()
        self._words.clear()

    def put(self, uid: str, owners: Sequence[ReservationOwner]) -> None:
        """What the owners of one that is not there yet name."""
        words = [word for owner in owners if owner.object is not None for word in (owner.object.name, owner.object.uid)]
        if named := [word for word in words if word]:
            self._named_by[uid] = named
            self._words.update(named)

    def remove(self, uid: str) -> None:
        """It is gone."""
        for word in self._named_by.pop(uid, ()):
            self._words[word] -= 1
            if not self._words[word]:
                del self._words[word]

    def may_mean(self, pod: Pod) -> bool:
        """Whether the pod may be meant by itself: its name alone may be that of one in another namespace."""
        return pod.name in self._words or pod.uid in self._words
