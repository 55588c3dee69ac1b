"""Pods that wait and are alike in all that decides on their place: where one goes nowhere, neither does another.

So when something happens only some of them have to be tried. Each that gets a place has more of them tried, until one
does not: as many as fit, about twice as many tries.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from berth.contracts.state import Pod
from berth.transaction.claims import Name

if TYPE_CHECKING:
    from berth.placement_solver.core.queue import Waiting

TRIED_FIRST: Final = 2
"""So many are tried when something happens that may help them."""
TRIED_MORE: Final = 2
"""So many for each that is not among them any more, since it has got a place or is gone."""
NO_TWIN: Final = b""

_encode = msgspec.json.Encoder(order="sorted").encode


class Twins:
    """Those who rest, by what they are alike in."""

    def __init__(self) -> None:
        self._resting: dict[bytes, dict[Name, Waiting]] = {}

    def rest(self, waiting: Waiting) -> None:
        """It was refused, and rests."""
        self.rise(waiting)
        waiting.twin = twin_of(waiting)
        if waiting.twin:
            self._resting.setdefault(waiting.twin, {})[waiting.name] = waiting

    def rise(self, waiting: Waiting) -> None:
        """It is to be tried."""
        members = self._resting.get(waiting.twin)
        if members is not None and members.pop(waiting.name, None) is not None and not members:
            del self._resting[waiting.twin]

    def renew(self, waiting: Waiting) -> None:
        """It may be alike to others now."""
        if waiting.name in self._resting.get(waiting.twin, ()):
            self.rest(waiting)

    def next_after(self, waiting: Waiting) -> list[Waiting]:
        """Who is tried instead of one that is gone, or has become another: nobody, if it rested."""
        members = self._resting.get(waiting.twin)
        if members is None or waiting.name in members:
            return []
        return list(islice(members.values(), TRIED_MORE))

    def some(self, found: Iterable[Waiting]) -> list[Waiting]:
        """Of those who are alike the ones who were tried longest ago; all others."""
        chosen: list[Waiting] = []
        alike: dict[bytes, list[Waiting]] = {}
        for each in found:
            if each.name in self._resting.get(each.twin, ()):
                alike.setdefault(each.twin, []).append(each)
            else:
                chosen.append(each)
        for those in alike.values():
            chosen += sorted(those, key=lambda each: each.tried_at)[:TRIED_FIRST]
        return chosen


def twin_of(waiting: Waiting) -> bytes:
    """The same for those who are alike. Members of gangs are tried together, volumes may be a pod's own."""
    obj = waiting.object
    if not isinstance(obj, Pod) or waiting.group or obj.template.volumes:
        return NO_TWIN
    said = (obj.namespace, obj.template, obj.owners, obj.attempt, obj.problems, obj.nominated)
    return blake2b(_encode(said), digest_size=16).digest()
