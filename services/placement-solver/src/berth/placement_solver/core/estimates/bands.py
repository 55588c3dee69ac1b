"""Two times for each that waits: by the first one in two have started, by the second nine in ten.

They are corrected by what came of those before: a time that was right too seldom moves out by a part, one that was
right too often moves in (a step of stochastic approximation for each that is known). So in the long run as many are
right as should be, whatever the picture leaves out. Only the first word about each counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

LEVELS: Final = (0.5, 0.9)
STEP: Final = 0.12
"""In logarithms of time."""
FACTOR_MAX: Final = 6.0
KEPT: Final = 500
OPEN_MAX: Final = 4096
FEWEST_PLAYED: Final = 20


class Band(NamedTuple):
    """What was said of one: when, and until when, in seconds of one clock."""

    said_at: float
    half_at: float
    most_at: float


class Record(NamedTuple):
    """Of the last ones about whom it is known: how many, and which part had started by the first and second time."""

    known: int
    half: float
    most: float


class Bands:
    """What was said, and what came of it."""

    def __init__(self) -> None:
        self._shift = [0.0, 0.0]
        self._open: dict[str, tuple[Band, list[bool | None]]] = {}
        self._past: deque[tuple[bool, bool]] = deque(maxlen=KEPT)

    @property
    def record(self) -> Record:
        """What came of the last ones."""
        known = len(self._past)
        if not known:
            return Record(0, 0.0, 0.0)
        return Record(known, sum(a for a, _ in self._past) / known, sum(b for _, b in self._past) / known)

    def band(self, starts: Sequence[float], now: float) -> Band | None:
        """The two times of who starts after so many seconds each time it was played; None: too few are known."""
        if len(starts) < FEWEST_PLAYED:
            return None
        ordered = np.sort(np.asarray(starts, np.float64))
        half, most = (float(ordered[min(len(ordered) - 1, int(level * len(ordered)))]) for level in LEVELS)
        if not np.isfinite(most):
            return None
        half *= float(np.exp(self._shift[0]))
        most *= float(np.exp(self._shift[1]))
        return Band(now, now + half, now + max(half, most))

    def say(self, unit: str, band: Band) -> None:
        """It was said of a unit; only the first time is judged."""
        if unit not in self._open and len(self._open) < OPEN_MAX:
            self._open[unit] = band, [None, None]

    def is_open(self, unit: str) -> bool:
        """Whether it is still to be seen what comes of what was said first."""
        return unit in self._open

    def started(self, unit: str, at: float) -> None:
        """It has started."""
        if unit in self._open:
            self._judge(unit, at, True)

    def forget(self, unit: str) -> None:
        """It is gone without having started: nothing is known."""
        self._open.pop(unit, None)

    def tick(self, now: float) -> None:
        """Those that have not started by the times that were said are known as well."""
        for unit in [unit for unit, (band, _) in self._open.items() if band.half_at < now]:
            self._judge(unit, now, False)

    def open(self) -> Iterable[str]:
        """Those about whom something was said that is not known yet."""
        return self._open.keys()

    def _judge(self, unit: str, at: float, has_started: bool) -> None:
        band, known = self._open[unit]
        for index, until in enumerate((band.half_at, band.most_at)):
            if known[index] is None and (has_started or at > until):
                known[index] = at <= until
                miss = LEVELS[index] - float(at <= until)
                shift = self._shift[index] + STEP * miss
                self._shift[index] = min(max(shift, -FACTOR_MAX), FACTOR_MAX)
        half, most = known
        if half is not None and most is not None:
            del self._open[unit]
            self._past.append((half, most))
