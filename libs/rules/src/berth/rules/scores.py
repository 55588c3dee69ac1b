"""Raw scores brought to 0..100, as kube-scheduler does for taints and node affinity."""

from collections.abc import Sequence
from typing import Final

SCORE_MAX: Final = 100


def normalise(raw: Sequence[int], *, fewer_is_better: bool = False) -> list[int]:
    """Each non-negative raw score as a percentage of the largest, cut off to an integer.

    `fewer_is_better` turns it round; if all are 0, every score is then 100, and otherwise 0.
    """
    most = max(raw, default=0)
    if most == 0:
        return [SCORE_MAX if fewer_is_better else 0] * len(raw)
    scaled = [SCORE_MAX * score // most for score in raw]
    return [SCORE_MAX - score for score in scaled] if fewer_is_better else scaled
