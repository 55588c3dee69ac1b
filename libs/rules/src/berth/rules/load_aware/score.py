"""How much of nodes would be left, by what is really used there: 0 to 100, divisions truncate."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

SCORE_MAX: Final = 100


def rate(load: Ints, capacity: Ints, weights: Ints, dominant: int) -> Ints:
    """The weighed mean over the resources, the worst of them with a weight of its own; a node a column.

    Args:
        load: what would be used of each resource, the pod included; a resource a row.
        capacity: what there is. A resource that a node does not have scores 0, and so does one of which there is less
            than would be used.
        weights: of the resources; one that is tracked alone has 0.
        dominant: the weight of the worst.
    """
    total = int(weights.sum()) + dominant
    if total <= 0:
        return np.zeros(load.shape[1], np.int64)
    left = capacity - load
    each = np.where((capacity > 0) & (left >= 0), left * SCORE_MAX // np.maximum(capacity, 1), 0)
    rated: Ints = (weights @ each + dominant * each.min(axis=0, initial=SCORE_MAX)) // total
    return rated
