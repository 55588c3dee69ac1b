"""How long pods stay on their nodes: by kind, from those that have ended and those that still run.

A histogram of ends over logarithmic ages for each kind, of which what is long ago counts less. Together with the ages
of those that run it gives the share that reaches each age (Kaplan and Meier: who runs still has survived up to now, and
says nothing of later). A kind of which too little was seen has the figures of a wider one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Kind = tuple[Hashable, ...]
"""From wide to narrow; each beginning of it is a kind as well, the empty one that of all."""

BINS: Final = 72
SHORTEST_S: Final = 1.0
GROWTH: Final = 1.28
"""From one bin to the next: 72 of them reach beyond a year."""
ENOUGH: Final = 20.0
"""So much has to have ended of a kind before it is believed."""
HALVED_AFTER: Final = 2000
"""An end counts half once so many others have been seen."""
KINDS_MAX: Final = 2048
_STEP: Final = 2.0 ** (1.0 / HALVED_AFTER)
_LARGE: Final = 1e12
EDGES: Final[Floats] = np.array([SHORTEST_S * GROWTH**index for index in range(BINS)], np.float64)
"""Where each bin ends; the first begins at 0, and the last never ends."""
_EDGES: Final[list[float]] = EDGES.tolist()


class Lifetimes:
    """Ends by kind. An end costs a few additions."""

    def __init__(self) -> None:
        self._ends: OrderedDict[Kind, Floats] = OrderedDict()
        self._next = 1.0
        self.seen = 0

    def ended(self, kind: Kind, lifetime_s: float) -> None:
        """A pod of the kind has ended after so long."""
        self.seen += 1
        place = _bin(lifetime_s)
        for length in range(len(kind) + 1):
            each = kind[:length]
            ends = self._ends.get(each)
            if ends is None:
                ends = self._ends[each] = np.zeros(BINS)
            self._ends.move_to_end(each)
            ends[place] += self._next
        while len(self._ends) > KINDS_MAX:
            self._ends.popitem(last=False)
        self._next *= _STEP
        if self._next > _LARGE:
            for ends in self._ends.values():
                ends /= self._next
            self._next = 1.0

    def curves(self, running: Iterable[tuple[Kind, float]]) -> Curves:
        """The shares that reach each age; `running` are those that run, with their ages in seconds."""
        at_risk: dict[Kind, Floats] = {}
        for kind, age_s in running:
            place = _bin(age_s)
            for length in range(len(kind) + 1):
                counts = at_risk.get(kind[:length])
                if counts is None:
                    counts = at_risk[kind[:length]] = np.zeros(BINS)
                counts[place] += 1.0
        return Curves({kind: ends / self._next for kind, ends in self._ends.items()}, at_risk)


class Curves:
    """For each kind the share of its pods that reaches each age."""

    def __init__(self, ends: dict[Kind, Floats], running: dict[Kind, Floats]) -> None:
        self._ends = ends
        self._running = running
        self._known: dict[Kind, Floats] = {}

    def of(self, kind: Kind) -> Floats | None:
        """The share that is left at the end of each bin, of the narrowest kind of which enough was seen; None: of none
        was."""
        for length in range(len(kind), -1, -1):
            each = kind[:length]
            ends = self._ends.get(each)
            if ends is not None and ends.sum() >= ENOUGH:
                return self._survival(each, ends)
        return None

    def _survival(self, kind: Kind, ends: Floats) -> Floats:
        found = self._known.get(kind)
        if found is None:
            running = self._running.get(kind, np.zeros(BINS))
            later_ends = ends[::-1].cumsum()[::-1]
            later_runs = running[::-1].cumsum()[::-1] - running / 2  # who is within the bin has survived half of it
            hazard = np.divide(ends, later_ends + later_runs, out=np.zeros(BINS), where=later_ends > 0)
            found = np.asarray(np.cumprod(1.0 - np.minimum(hazard, 1.0)), np.float64)
            self._known[kind] = found
        return found

    def left_s(self, kind: Kind, age_s: float, chance: Floats) -> Floats:
        """How long one of this age will go on, for each chance (0: it ends at once, towards 1: late); infinite beyond
        what was seen."""
        survival = self.of(kind)
        if survival is None:
            return np.full(chance.shape, np.inf)
        edges = np.concatenate([[0.0], EDGES])
        shares = np.concatenate([[1.0], survival])
        reached = float(np.interp(age_s, edges, shares))
        if reached <= 0.0:
            return np.full(chance.shape, max(age_s, SHORTEST_S) * 0.1)  # older than all that were seen
        wanted = reached * (1.0 - chance)
        # Shares fall with age: turned round they rise, as it takes to look them up.
        ages = np.interp(wanted, shares[::-1], edges[::-1])
        return np.where(wanted < shares[-1], np.inf, np.maximum(ages - age_s, 0.0))


def _bin(age_s: float) -> int:
    return min(bisect_left(_EDGES, age_s), BINS - 1)
