"""Settings measured on arrivals, in orders that are the same for all of them, so that they are compared in pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.cli.tuning.playing import FILL, LOADS, Player, figures_of_churn
from berth.cli.tuning.settings import Settings, configuration_with
from berth.cli.tuning.site import Arrival, Site

Figures = dict[str, float]
SCORES: Final = ("fill", "churn")
"""What settings are compared by: the mean of both figures of filling, and that of the asked GPUs that are placed."""


class Gain(NamedTuple):
    """A difference in percent points: its mean over orders, and the standard error of that."""

    mean: float
    error: float

    @property
    def is_sure(self) -> bool:
        """It is larger than twice its error."""
        return self.mean > 2.0 * self.error and self.mean > 0.0

    @property
    def is_loss(self) -> bool:
        """It is surely below zero."""
        return self.mean < -2.0 * self.error and self.mean < 0.0


class Measuring:
    """On some nodes of a site, and some arrivals. Each order is played once for each settings; `played` counts them."""

    def __init__(self, site: Site, arrivals: Sequence[Arrival], seed: int) -> None:
        self._site = site
        self._arrivals = arrivals
        self._seed = seed
        self._known: dict[tuple[str, str, int], Figures] = {}
        self.played = 0
        self.on_play: Callable[[], None] = lambda: None

    def figures(self, settings: Settings, what: str, order: int) -> Figures:
        """All figures of `fill` or `churn` in one order."""
        text = configuration_with(settings, self._site.configuration, self._site.scheduler)
        key = (text, what, order)
        if key not in self._known:
            player, seed = Player(self._site, text), self._seed + order
            if what == "fill":
                self._known[key] = player.fill(self._arrivals, seed)
            else:
                found: Figures = {}
                for load in LOADS:
                    found |= player.churn(self._arrivals, load, seed)
                self._known[key] = found
            self.played += 1
            self.on_play()
        return self._known[key]

    def score(self, settings: Settings, what: str, order: int) -> float:
        """One number for it."""
        found = self.figures(settings, what, order)
        of = FILL if what == "fill" else [figures_of_churn(load)[1] for load in LOADS]
        return float(np.mean([found[name] for name in of]))

    def gain(self, settings: Settings, before: Settings, what: str, orders: int) -> Gain:
        """How much better it is than before, in the first so many orders."""
        return gain_of([self.score(settings, what, order) - self.score(before, what, order) for order in range(orders)])


def gain_of(differences: Sequence[float]) -> Gain:
    """Of one order nobody knows the error: it is infinite."""
    count = len(differences)
    error = float(np.std(differences, ddof=1)) / count**0.5 if count > 1 else float("inf")
    return Gain(float(np.mean(differences)), error)


def means(figures: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Of each figure the mean over orders, and the standard deviation between them."""
    names = [name for name in figures[0] if all(name in each for each in figures)]
    found = {name: [each[name] for each in figures] for name in names}
    return {
        name: (float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
        for name, values in found.items()
    }
