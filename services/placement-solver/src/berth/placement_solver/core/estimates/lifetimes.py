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
EDGES: Final[Floats] = np.array([SHORTEST_S * GROWTH**index for index in range(BINS)], np.float64)
"""Where each bin ends; the first begins at 0, and the last never ends."""
_EDGES: Final[list[float]] = EDGES.tolist()
_FROM_0: Final[Floats] = np.concatenate([[0.0], EDGES])


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

    def curves(self, running: Iterable[tuple[Kind, float]]) -> Curves:
        """What can be drawn; `running` are those that run, with their ages in seconds."""
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
    """What is known of each kind."""

    def __init__(self, ends: dict[Kind, Floats], running: dict[Kind, Floats]) -> None:
        self._ends = ends
        self._running = running
        self._counts: dict[Kind, tuple[Floats, Floats] | None] = {}
        everyone = ends.get(())
        self.known = everyone is not None and float(everyone.sum()) >= ENOUGH

    def drawn(self, rng: np.random.Generator) -> Drawn:
        """One way in which it may be."""
        return Drawn(self, rng)

    def counts(self, kind: Kind) -> tuple[Floats, Floats] | None:
        """For each age how many have ended there, and how many have gone on, as far as they tell something of their
        own; None: nothing was seen of the kind."""
        if kind not in self._counts:
            self._counts[kind] = self._counted(self._ends.get(kind), self._running.get(kind))
        return self._counts[kind]

    def _counted(self, ends: Floats | None, running: Floats | None) -> tuple[Floats, Floats] | None:
        if ends is None and running is None:
            return None
        none = np.zeros(BINS)
        ends, running = none if ends is None else ends, none if running is None else running
        later = ends[::-1].cumsum()[::-1] - ends
        runs = running[::-1].cumsum()[::-1] - running / 2  # who is within the bin has survived half of it
        return ends / ALIKE, (later + runs) / ALIKE


class Drawn:
    """How long pods stay, in one way in which it may be."""

    def __init__(self, curves: Curves, rng: np.random.Generator) -> None:
        self._curves = curves
        self._rng = rng
        self._hazards: dict[Kind, Floats] = {}
        self._lost: dict[Kind, Floats] = {}

    def left_s(self, kind: Kind, ages_s: Floats) -> Floats:
        """How long pods of such ages will go on; infinite where nothing is known, and beyond a year."""
        if not self._curves.known:
            return np.full(ages_s.shape, np.inf)
        lost = self._lost.get(kind)
        if lost is None:
            lost = self._lost[kind] = np.concatenate([[0.0], (-np.log1p(-self._hazard(kind))).cumsum()])
        # By the logarithm of the share that is lost, as much more goes until one ends is exponential.
        until = np.interp(ages_s, _FROM_0, lost) + self._rng.exponential(size=ages_s.shape)
        return np.where(until > lost[-1], np.inf, np.maximum(np.interp(until, lost, _FROM_0) - ages_s, 0.0))

    def _hazard(self, kind: Kind) -> Floats:
        """Of those that reach each age, the part that ends there."""
        found = self._hazards.get(kind)
        if found is None:
            counts = self._curves.counts(kind)
            if kind:
                wider = self._hazard(kind[:-1])
                found = wider if counts is None else self._draw(wider, WIDER, *counts)
            elif counts is not None:
                ended, went_on = counts
                anywhere = np.full(BINS, ended.sum() / (ended + went_on).sum())
                found = self._draw(anywhere, 1.0, ended, went_on)
            else:
                found = np.zeros(BINS)
            self._hazards[kind] = found
        return found

    def _draw(self, expected: Floats, worth: float, ended: Floats, went_on: Floats) -> Floats:
        ends, stays = worth * expected + ended, worth * (1.0 - expected) + went_on
        return np.asarray(np.minimum(self._rng.beta(ends + _LEAST, stays + _LEAST), _MOST), np.float64)


def _bin(age_s: float) -> int:
    return min(bisect_left(_EDGES, age_s), BINS - 1)
