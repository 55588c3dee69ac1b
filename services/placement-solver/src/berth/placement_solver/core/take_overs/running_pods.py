"""Bound pods by what the owners of a Reservation name, so that a Reservation which takes over pods is compared with
those only that may be meant.

There is an index while somebody asks for it: where no Reservation takes over pods nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from berth.contracts.kube import ReservationOwner
from berth.contracts.state import Pod
from berth.rules.reservation_owners import OwnerKey, owner_keys
from berth.transaction.claims import Name

UNASKED_MAX: Final = 10_000
"""After so many pods that nobody has asked about the index is given up."""
LABELLED: Final = "labelled"
"""The kind of a key that names a label whatever its value."""
Found: TypeAlias = dict[Name, None]
NOBODY: Final[Found] = {}


class RunningPods:
    """Names of bound pods by owner keys; `pods` are those of the view, bound or not."""

    def __init__(self, pods: Mapping[Name, Pod]) -> None:
        self._pods = pods
        self._under: dict[OwnerKey, Found] | None = None
        self._keys_of: dict[Name, tuple[OwnerKey, ...]] = {}
        self._unasked = 0

    def reset(self) -> None:
        """The view starts over."""
        self._under = None
        self._keys_of.clear()

    def see(self, name: Name, pod: Pod | None) -> None:
        """A pod is shown, or with None gone."""
        if self._under is None:
            return
        self._unasked += 1
        if self._unasked > UNASKED_MAX:
            self.reset()
            return
        self._put(self._under, name, pod)

    def of_owners(self, owners: Sequence[ReservationOwner]) -> Iterator[Name] | None:
        """All whom one of the owners accepts, and some whom none does; each once. None: they may be any pods."""
        sets = [list(owner_keys(owner)) for owner in owners]
        if not all(sets):
            return None
        under = self._index()
        found: Found = {}
        for choices in sets:
            for key in min(choices, key=lambda keys: sum(len(under.get(each, NOBODY)) for each in keys)):
                found.update(under.get(key, NOBODY))
        return iter(found)

    def labelled(self, key: str) -> Iterator[Name]:
        """All with a label."""
        return iter(self._index().get((LABELLED, key, ""), NOBODY))

    def _index(self) -> dict[OwnerKey, Found]:
        self._unasked = 0
        if self._under is None:
            self._under = {}
            for name, pod in self._pods.items():
                self._put(self._under, name, pod)
        return self._under

    def _put(self, under: dict[OwnerKey, Found], name: Name, pod: Pod | None) -> None:
        new = tuple(_keys_of(pod)) if pod is not None and pod.node else ()
        old = self._keys_of.get(name, ())
        if new == old:
            return
        for key in old:
            if (found := under.get(key)) is not None:
                found.pop(name, None)
                if not found:
                    del under[key]
        for key in new:
            under.setdefault(key, {})[name] = None
        if new:
            self._keys_of[name] = new
        else:
            self._keys_of.pop(name, None)


def _keys_of(pod: Pod) -> Iterable[OwnerKey]:
    yield ("object.name", pod.name, "")
    yield ("object.uid", pod.uid, "")
    yield ("namespace", pod.namespace, "")
    for reference in pod.owners:
        yield ("controller.name", reference.name, "")
        yield ("controller.uid", reference.uid, "")
    for key, value in pod.template.labels.items():
        yield ("label", key, value)
        yield (LABELLED, key, "")
