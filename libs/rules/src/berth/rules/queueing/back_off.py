"""How long a pod that came back to the queue is left alone.

1, 2, 4, 8 seconds and so on up to a limit. An attempt that ended in an error counts errors in a row, another one
rejections. Times are seconds on one clock; the end of a back-off is a whole second, so that pods end together.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

INITIAL_MS: Final = 1_000
MAX_MS: Final = 10_000
FLUSH_S: Final = 300.0
"""A pod that no event woke is tried again after this."""
_DOUBLINGS_MAX: Final = 63


class BackOff(NamedTuple):
    """The settings of a profile, in milliseconds; a `max_ms` of 0 switches back-off off."""

    initial_ms: int = INITIAL_MS
    max_ms: int = MAX_MS

    def pause_ms(self, rejections: int, errors: int = 0) -> int:
        """How long after the last attempt, which ended in an error if `errors` is not 0."""
        count = errors or rejections
        if count <= 0 or self.max_ms <= 0:
            return 0
        return min(self.initial_ms << min(count - 1, _DOUBLINGS_MAX), self.max_ms)

    def ends_at_s(self, failed_at_s: float, rejections: int, errors: int = 0) -> int:
        """When it is over: the whole second before failure and pause together."""
        return math.floor(failed_at_s + self.pause_ms(rejections, errors) / 1_000)


def is_backing_off(ends_at_s: int, now_s: float) -> bool:
    """Whether a pod is still left alone."""
    return ends_at_s >= math.floor(now_s)
