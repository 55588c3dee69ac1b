"""Things made once for each key, of which those used longest ago are dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Interned(Generic[T]):
    """At most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: OrderedDict[Hashable, T] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The one of this key, made when it is new."""
        found = self._made.get(key)
        if found is not None:
            self._made.move_to_end(key)
            return found
        made = self._made[key] = make()
        if len(self._made) > self._most:
            self._made.popitem(last=False)
        return made
