"""Reservations by what their owners name, so that a pod is compared with those only that may be meant for it.

Almost every pod is meant by none of them, and asks all the same: a few look-ups by text are all that it pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

from berth.contracts.kube import OwnerReference, ReservationOwner
from berth.rules.reservation_owners import OwnerKey, PodIdentity, owner_keys

Found: TypeAlias = dict[str, None]
NOBODY: Final[Found] = {}

# What a pod has of that which owners name, by what it is.
_OF_POD: Final[Mapping[str, Callable[[PodIdentity], str]]] = {
    "object.name": attrgetter("name"),
    "object.uid": attrgetter("uid"),
    "namespace": attrgetter("namespace"),
}
_OF_OWNER: Final[Mapping[str, Callable[[OwnerReference], str]]] = {
    "controller.name": attrgetter("name"),
    "controller.uid": attrgetter("uid"),
}


class OwnerIndex:
    """Ids of Reservations under the keys of their owners. An owner stands under the keys that fewest others have."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, str], Found] = {}
        self._by_kind: dict[str, dict[str, Found]] = {}  # what else is named, by what it is
        self._by_word: list[tuple[Callable[[PodIdentity], str], dict[str, Found]]] = []
        self._by_owner: list[tuple[Callable[[OwnerReference], str], dict[str, Found]]] = []
        self._keys_of: dict[str, list[OwnerKey]] = {}
        self._any: Found = {}  # with an owner that names nothing

    def clear(self) -> None:
        """Forget all of them."""
        self._labels.clear()
        self._by_kind.clear()
        self._line_up()
        self._keys_of.clear()
        self._any.clear()

    def add(self, uid: str, owners: Sequence[ReservationOwner]) -> None:
        """Take in a Reservation that is not there yet."""
        keys = self._keys_of[uid] = []
        for owner in owners:
            choice = min(owner_keys(owner), key=self._used, default=None)
            if choice is None:
                self._any[uid] = None
            for key in choice or ():
                self._under(key)[uid] = None
                keys.append(key)

    def remove(self, uid: str) -> None:
        """Forget a Reservation."""
        self._any.pop(uid, None)
        for key in self._keys_of.pop(uid, ()):
            under = self._under(key)
            under.pop(uid, None)
            if not under:
                self._drop(key)

    def may_accept(self, pod: PodIdentity) -> Found:
        """The ids of all Reservations that accept the pod, and of some that do not. Not to be changed."""
        found: Found = dict(self._any) if self._any else NOBODY
        labels = self._labels
        if labels and not labels.keys().isdisjoint(pod.labels.items()):
            for item in pod.labels.items():
                if item in labels:
                    found = {**found, **labels[item]}
        for word_of, under in self._by_word:
            word = word_of(pod)
            if word in under:
                found = {**found, **under[word]}
        if pod.owners:
            for word_of_owner, under in self._by_owner:
                for word in map(word_of_owner, pod.owners):
                    if word in under:
                        found = {**found, **under[word]}
        return found

    def _under(self, key: OwnerKey) -> Found:
        kind, word, value = key
        if kind == "label":
            return self._labels.setdefault((word, value), {})
        if kind not in self._by_kind:
            self._by_kind[kind] = {}
            self._line_up()
        return self._by_kind[kind].setdefault(word, {})

    def _drop(self, key: OwnerKey) -> None:
        kind, word, value = key
        if kind == "label":
            del self._labels[word, value]
            return
        words = self._by_kind[kind]
        del words[word]
        if not words:
            del self._by_kind[kind]
            self._line_up()

    def _line_up(self) -> None:
        """What every pod is looked up in: of the kinds that are named by anybody."""
        self._by_word = [(word, self._by_kind[kind]) for kind, word in _OF_POD.items() if kind in self._by_kind]
        self._by_owner = [(word, self._by_kind[kind]) for kind, word in _OF_OWNER.items() if kind in self._by_kind]

    def _used(self, keys: tuple[OwnerKey, ...]) -> tuple[int, int]:
        """How many stand there already; of two choices the longer words are the rarer ones."""
        used = 0
        for kind, word, value in keys:
            under = self._labels.get((word, value)) if kind == "label" else self._by_kind.get(kind, {}).get(word)
            used += len(under or ())
        return used, -max((len(word) + len(value) for _, word, value in keys), default=0)
