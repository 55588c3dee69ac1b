"""Reservations by what their owners name, so that a pod is compared with those only that may be meant for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.kube import ReservationOwner
from berth.rules.reservation_owners import OwnerKey, PodIdentity, owner_keys, pod_keys


class OwnerIndex:
    """Ids of Reservations under the keys of their owners. An owner stands under the keys that fewest others have."""

    def __init__(self) -> None:
        self._by_key: dict[OwnerKey, dict[str, None]] = {}
        self._keys_of: dict[str, list[OwnerKey]] = {}
        self._any: dict[str, None] = {}  # with an owner that names nothing

    def clear(self) -> None:
        """Forget all of them."""
        self._by_key.clear()
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
                self._by_key.setdefault(key, {})[uid] = None
                keys.append(key)

    def remove(self, uid: str) -> None:
        """Forget a Reservation."""
        self._any.pop(uid, None)
        for key in self._keys_of.pop(uid, ()):
            under = self._by_key.get(key)
            if under is not None:
                under.pop(uid, None)
                if not under:
                    del self._by_key[key]

    def may_accept(self, pod: PodIdentity) -> Iterator[str]:
        """The ids, each once, of all Reservations that accept the pod, and of some that do not."""
        if not self._by_key:
            return iter(self._any)
        found = dict(self._any)
        for key in pod_keys(pod):
            found.update(self._by_key.get(key, ()))
        return iter(found)

    def _used(self, keys: tuple[OwnerKey, ...]) -> int:
        return sum(len(self._by_key.get(key, ())) for key in keys)
