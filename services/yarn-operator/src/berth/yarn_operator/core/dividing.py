"""What is on its way, node by node: what was asked for and is not shown yet counts as it may come to be.

A charge that is on its way counts where it is the smaller one, a grant where it is the larger one. What another replica
may still have on its way is fenced off: its note is written anew before YARN is granted more, so that its requests find
another note than they expect, and YARN stays charged for a while with what it was charged with. Times are monotonic
seconds.
"""

from __future__ import annotations

from collections.abc import Container
from functools import reduce
from typing import Final, NamedTuple

from berth.yarn_operator.core.notes import Noted
from berth.yarn_operator.core.step import Seen, Step, step
from berth.yarn_operator.core.units import NONE, Share, larger, smaller

AGAIN_S: Final = 10.0
"""A charge that does not show is asked for again."""
DOUBT_S: Final = 60.0
"""For so long a request without an answer may still be carried out."""


class _Charge(NamedTuple):
    revision: int
    least: Share
    again_at: float


class _Doubt(NamedTuple):
    share: Share
    until: float


class Dividing:
    """Remembers of each node what YARN is to have, and what is on its way. `writer` is nobody else's, nor of another
    turn of this replica."""

    def __init__(self, *, percent: int, writer: str) -> None:
        self.writer = writer
        self._percent = percent
        self._wants: dict[str, Share] = {}
        self._charges: dict[str, _Charge] = {}
        self._doubts: dict[str, list[_Doubt]] = {}

    def decide(self, name: str, seen: Seen, noted: Noted, now: float) -> Step:
        """The next step for a node. `seen` is as it is shown."""
        on_its_way = self._charges.get(name)
        if on_its_way is not None and on_its_way.revision != noted.revision:
            del self._charges[name]
            on_its_way = None
        if on_its_way is not None:
            seen = seen._replace(charged=smaller(seen.charged, on_its_way.least))
        is_foreign = bool(noted.text) and noted.writer != self.writer
        if is_foreign:
            doubts = [each for each in self._doubts.get(name, ()) if each.share != noted.charged]
            self._doubts[name] = [_Doubt(noted.charged, now + DOUBT_S), *doubts]
            seen = seen._replace(offered=None)
        seen = seen._replace(doubt=self._in_doubt(name, now))
        before = self._wants.get(name, noted.charged)
        found = step(seen, before, percent=self._percent)
        self._wants[name] = found.want
        if is_foreign and noted.charged != NONE and found.charge is None:
            found = found._replace(charge=noted.charged)
        elif found.charge is None or (found.charge == noted.charged and on_its_way is None):
            return found._replace(charge=None)
        if on_its_way is not None and now < on_its_way.again_at:
            return found._replace(charge=None)
        return found

    def charging(self, name: str, noted: Noted, charge: Share, now: float) -> None:
        """A charge is about to be asked for."""
        before = self._charges.get(name)
        least = charge if before is None else smaller(before.least, charge)
        self._charges[name] = _Charge(noted.revision, least, now + AGAIN_S)

    def granting(self, name: str, grant: Share, now: float) -> None:
        """A grant is about to be asked for: until it is answered, YARN may come to have it."""
        self._doubts.setdefault(name, []).append(_Doubt(grant, now + DOUBT_S))

    def answered(self, name: str) -> None:
        """The last one was: what the ResourceManager lists from now on shows what came of it. Earlier ones without an
        answer stay in doubt."""
        self._doubts[name].pop()

    def keep(self, nodes: Container[str], now: float) -> None:
        """Forget nodes that are gone. What may still be carried out for one is kept for as long as that is so: it may
        come back by its name."""
        for name in [each for each in self._wants.keys() | self._charges.keys() if each not in nodes]:
            self._wants.pop(name, None)
            self._charges.pop(name, None)
        for name in [each for each in self._doubts if each not in nodes]:
            self._in_doubt(name, now)

    def _in_doubt(self, name: str, now: float) -> Share:
        doubts = [each for each in self._doubts.pop(name, ()) if now < each.until]
        if doubts:
            self._doubts[name] = doubts
        return reduce(larger, (each.share for each in doubts), NONE)
