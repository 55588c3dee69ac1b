"""Two times for each that waits: by the first one in two have started, by the second nine in ten.

They are corrected by what came of those before, as far as that shows that a correction helps (Gibbs and Candes,
Conformal inference for online prediction with arbitrary distribution shifts, 2024, their DtACI). A learner moves a time
out by a part for each word that did not come true, and in for each that did, so that in the long run as many come true
as should; there are some for each level, from one that never moves to a quick one, and each has a weight by what its
times would have been worth (the pinball loss of logarithms). Pods of one busy period are right or wrong together, and a
quick learner runs after each period: it is believed only where the picture is wrong for longer. Only the first word
about each pod counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVELS: Final = (0.5, 0.9)
STEPS: Final[Floats] = np.array([0.0, 0.05, 0.2])
"""How far each learner moves, in logarithms of time."""
FIRST: Final[Floats] = np.full(len(STEPS), 1.0 / len(STEPS))
"""Their weights where nothing is known."""
LEARNS: Final = 1.0
"""How much weights go by one loss."""
FORGETS: Final = 0.0005
"""Such a part of what weights have learned is given up with each word that is known."""
SHIFT_MAX: Final = 4.0
"""A time is multiplied or divided by 55 at most."""
KEPT: Final = 500
OPEN_MAX: Final = 4096
FEWEST_PLAYED: Final = 20
BELIEVED_S: Final = 1e8
"""Nothing is said of what is later: three years."""
_LATE_S: Final = 1e12
SOONEST_S: Final = 1.0
"""What is sooner counts as so soon: there is a look a second."""


class Band(NamedTuple):
    """What was said of one: when, and until when, in seconds of one clock; `played` are the two lengths of time that
    were not corrected yet."""

    said_at: float
    half_at: float
    most_at: float
    played: tuple[float, float]


class Record(NamedTuple):
    """Of the last ones about whom it is known: how many, and which part had started by the first and second time."""

    known: int
    half: float
    most: float


class Bands:
    """What was said, and what came of it."""

    def __init__(self) -> None:
        self._learners = tuple(_Learners(level) for level in LEVELS)
        self._open: dict[str, _Word] = {}
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
        # What is infinite is only known to be late; it must not be reckoned with.
        finite = np.nan_to_num(np.asarray(starts, np.float64), posinf=_LATE_S)
        half, most = np.quantile(finite, LEVELS, method="weibull").tolist()
        if most > BELIEVED_S:
            return None
        first, second = (each.factor() for each in self._learners)
        return Band(now, now + half * first, now + max(half * first, most * second), (half, most))

    def say(self, unit: str, band: Band) -> None:
        """It was said of a unit; only the first time is judged."""
        if unit not in self._open and len(self._open) < OPEN_MAX:
            until = [band.half_at, band.most_at]
            for index, (learners, played_s) in enumerate(zip(self._learners, band.played, strict=True)):
                until[index] = max(until[index], band.said_at + played_s * learners.latest())
            self._open[unit] = _Word(band, until, [learners.shifts for learners in self._learners])

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
        """Those that have not started by any time that could have been said are known as well; else the long ones
        would be missing."""
        for unit in [unit for unit, word in self._open.items() if word.next_until < now]:
            self._judge(unit, now, False)

    def open(self) -> Iterable[str]:
        """Those about whom something was said that is not known yet."""
        return self._open.keys()

    def _judge(self, unit: str, at: float, has_started: bool) -> None:
        word = self._open[unit]
        band = word.band
        for index, said in enumerate((band.half_at, band.most_at)):
            if not word.is_known[index] and (has_started or at > word.until[index]):
                word.is_known[index] = True
                self._learners[index].see(at - band.said_at, band.played[index], word.shifts[index])
                word.came_true[index] = at <= said
        if all(word.is_known):
            del self._open[unit]
            self._past.append((word.came_true[0], word.came_true[1]))


class _Word:
    """The first one about a unit, and what is known of it by level. `shifts` are those of the learners when it was
    said; beyond `until` all of them would be wrong."""

    def __init__(self, band: Band, until: list[float], shifts: list[Floats]) -> None:
        self.band = band
        self.until = until
        self.shifts = shifts
        self.is_known = [False, False]
        self.came_true = [False, False]

    @property
    def next_until(self) -> float:
        """When more is known of it, though it does not start."""
        return min(until for until, known in zip(self.until, self.is_known, strict=True) if not known)


class _Learners:
    """Those of one level: how far each has moved, and what each is worth."""

    def __init__(self, level: float) -> None:
        self._level = level
        self._weights = FIRST.copy()
        self.shifts = np.zeros(len(STEPS))
        """Replaced, never changed."""

    def factor(self) -> float:
        """What a time is multiplied by."""
        return float(np.exp(self._weights @ self.shifts))

    def latest(self) -> float:
        """What the one would multiply it by that is the last one to be wrong."""
        return float(np.exp(self.shifts.max()))

    def see(self, took_s: float, played_s: float, said: Floats) -> None:
        """It took so long, or longer than all of them would say; so long was played. Weights go by where they stood
        when it was `said`: since then a quick one has learned from others of the same period."""
        ratio = float(np.log(max(took_s, SOONEST_S) / max(played_s, SOONEST_S)))
        beyond = ratio - said
        losses = np.where(beyond > 0.0, self._level * beyond, (self._level - 1.0) * beyond)
        weights = self._weights * np.exp(-LEARNS * (losses - losses.min()))
        self._weights = (1.0 - FORGETS) * weights / weights.sum() + FORGETS * FIRST
        moved = self.shifts + STEPS * (self._level - (ratio <= self.shifts))
        self.shifts = np.clip(moved, -SHIFT_MAX, SHIFT_MAX)
