"""How long a pod that came back to the queue is left alone.

1, 2, 4, 8 seconds and so on up to a limit. An attempt that ended in an error counts errors in a row, another one
rejections.
"""

from __future__ import annotations

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
