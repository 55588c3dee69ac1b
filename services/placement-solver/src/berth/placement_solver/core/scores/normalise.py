"""The normalisation that most plugins share."""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.placement_solver.core.seams import Floats

SCORE_MAX: Final = 100


def by_highest(raw: Floats, *, reverse: bool = False) -> Floats:
    """The highest rating becomes 100, the others their share of it, truncated; `reverse`: 100 less that.

    All 0: they stay 0, reversed they become 100 (kube-scheduler's DefaultNormalizeScore). Ratings are integers.
    """
    ratings = raw.astype(np.int64)
    highest = int(ratings.max(initial=0))
    if highest > 0:
        ratings = SCORE_MAX * ratings // highest
    return (SCORE_MAX - ratings if reverse else ratings).astype(np.float64)
