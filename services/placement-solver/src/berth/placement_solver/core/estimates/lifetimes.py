"""How long pods stay on their nodes: by kind, from those that have ended and those that still run.

A histogram of ends over logarithmic ages for each kind, of which what is long ago counts less. Together with the ages
of those that run it gives how many of those that reach an age end there (Kaplan and Meier: who runs still has survived
up to now, and says nothing of later). What is not known is drawn, not left out: a kind has the hazards of the wider
one, as if it had seen so many of those, and its own (Hjort, Nonparametric Bayes estimators based on beta processes in
models for life history data, 1990), and each draw is one way in which things may be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Kind = tuple[Hashable, ...]
"""From wide to narrow; each beginning of it is a kind as well, the empty one that of all."""

BINS: Final = 72
SHORTEST_S: Final = 1.0
GROWTH: Final = 1.28
"""From one bin to the next: 72 of them reach beyond a year."""
ENOUGH: Final = 20.0
"""So much has to have ended before anything is believed."""
HALVED_AFTER: Final = 500
"""An end counts half once so many others have been seen, and not before those who are there have ended ten times."""
TURNOVERS: Final = 10.0
WIDER: Final = 5.0
"""So many of its own a kind has to have seen at an age until they count as much as those of the wider one."""
ALIKE: Final = 3.0
"""So many that come together end alike, and tell as much as one."""
KINDS_MAX: Final = 2048
_LARGE: Final = 1e12
_LEAST: Final = 1e-3
_MOST: Final = 1.0 - 1e-9
_APART: Final = 2000.0
"""More than the logarithms of a row can come to."""
_TINY: Final = 1e-12
EDGES: Final[Floats] = np.array([SHORTEST_S * GROWTH**index for index in range(BINS)], np.float64)
"""Where each bin ends; the first begins at 0, and the last never ends."""
_EDGES: Final[list[float]] = EDGES.tolist()
_FROM_0: Final[Floats] = np.concatenate([[0.0], EDGES])
_WIDTHS: Final[Floats] = np.diff(_FROM_0)


class Lifetimes:
    """Ends by kind. An end costs a few additions."""

    def __init__(self) -> None:
        self._ends: OrderedDict[Kind, Floats] = OrderedDict()
        self._next = 1.0
        self.seen = 0

    def ended(self, kind: Kind, lifetime_s: float, among: int = 0) -> None:
        """A pod of the kind has ended after so long, one of so many that have a place.

        Those that run count in full, whatever their age; so ends must not be forgotten sooner than pods come and go.
        """
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
        self._next *= 2.0 ** (1.0 / max(HALVED_AFTER, TURNOVERS * among))
        if self._next > _LARGE:
            for ends in self._ends.values():
                ends /= self._next
            self._next = 1.0

    def curves(self, running: Iterable[tuple[Kind, float]], come: Iterable[Kind] = ()) -> Curves:
        """What can be drawn; `running` are those that run, with their ages in seconds, `come` others that are asked
        about."""
        at_risk: dict[Kind, Floats] = {}
        for kind, age_s in running:
            place = _bin(age_s)
            for length in range(len(kind) + 1):
                counts = at_risk.get(kind[:length])
                if counts is None:
                    counts = at_risk[kind[:length]] = np.zeros(BINS)
                counts[place] += 1.0
        asked = dict.fromkeys(kind[:length] for kind in come for length in range(len(kind) + 1))
        known = [kind for kind in {(): None, **at_risk, **asked} if kind in at_risk or kind in self._ends]
        ends = {kind: self._ends[kind] / self._next for kind in known if kind in self._ends}
        return Curves(ends, at_risk, known)


class Curves:
    """What is known of some kinds, as tables with a row for each; wide ones come first."""

    def __init__(self, ends: dict[Kind, Floats], running: dict[Kind, Floats], kinds: Iterable[Kind]) -> None:
        ordered = sorted(dict.fromkeys([(), *kinds]), key=len)
        none = np.zeros(BINS)
        ended = np.array([ends.get(kind, none) for kind in ordered])
        runs = np.array([running.get(kind, none) for kind in ordered])
        later = ended[:, ::-1].cumsum(axis=1)[:, ::-1] - ended
        survive = runs[:, ::-1].cumsum(axis=1)[:, ::-1] - runs / 2  # who is within the bin has survived half of it
        self.known = float(ended[0].sum()) >= ENOUGH
        self.ended = ended / ALIKE
        """How many have ended at each age, as far as they tell something of their own."""
        self.went_on = (later + survive) / ALIKE
        """How many were older then."""
        self._rows = {kind: row for row, kind in enumerate(ordered)}
        self.wider = np.array([self.row(kind[:-1]) for kind in ordered], np.intp)
        """The row of the kind that each leans on."""
        lengths = [len(kind) for kind in ordered]
        edges = [bisect_left(lengths, length) for length in range(1, max(lengths) + 2)]
        self.levels = [slice(low, high) for low, high in zip([0, *edges[:-1]], edges, strict=True) if high > low]

    def row(self, kind: Kind) -> int:
        """That of the kind, or of the next wider one of which something was seen."""
        while kind not in self._rows:
            kind = kind[:-1]
        return self._rows[kind]

    def drawn(self, rng: np.random.Generator) -> Drawn:
        """One way in which it may be."""
        return Drawn(self, rng)


class Drawn:
    """How long pods stay, in one way in which it may be."""

    def __init__(self, curves: Curves, rng: np.random.Generator) -> None:
        self._rng = rng
        self._known = curves.known
        hazards = np.empty(curves.ended.shape)
        for level in curves.levels if self._known else ():
            ended, went_on = curves.ended[level], curves.went_on[level]
            if level.start:
                expected, worth = hazards[curves.wider[level]], WIDER
            else:
                expected, worth = np.full(ended.shape, ended.sum() / (ended + went_on).sum()), 1.0
            stay = worth * (1.0 - expected) + went_on
            hazards[level] = np.minimum(rng.beta(worth * expected + ended + _LEAST, stay + _LEAST), _MOST)
        self._lost = np.zeros((len(hazards), BINS + 1))
        if self._known:
            np.cumsum(-np.log1p(-hazards), axis=1, out=self._lost[:, 1:])
        # A row after the other, so that one search finds places in all of them.
        self._flat = (self._lost + _APART * np.arange(len(hazards))[:, None]).ravel()

    def left_s(self, rows: Rows, ages_s: Floats) -> Floats:
        """How long pods of such kinds and ages will go on; infinite where nothing is known, and beyond a year."""
        if not self._known:
            return np.full(ages_s.shape, np.inf)
        places = np.minimum(np.searchsorted(_FROM_0, ages_s, side="right") - 1, BINS - 1)
        lost, more = self._lost[rows, places], self._lost[rows, places + 1]
        reached = lost + (more - lost) * np.minimum((ages_s - _FROM_0[places]) / _WIDTHS[places], 1.0)
        # By the logarithm of the share that is lost, as much more goes until one ends is exponential.
        until = reached + self._rng.exponential(size=ages_s.shape)
        found = np.searchsorted(self._flat, until + _APART * rows, side="right") - 1 - (BINS + 1) * rows
        places = np.minimum(found, BINS - 1)
        lost, more = self._lost[rows, places], self._lost[rows, places + 1]
        ages = _FROM_0[places] + _WIDTHS[places] * (until - lost) / np.maximum(more - lost, _TINY)
        return np.where(found >= BINS, np.inf, np.maximum(ages - ages_s, 0.0))


def _bin(age_s: float) -> int:
    return min(bisect_left(_EDGES, age_s), BINS - 1)
