"""When something that was asked for is asked for again: after a minute, then after two, up to every half hour."""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST_S: Final = 60.0
LONGEST_S: Final = 1800.0


class Asked(NamedTuple):
    """A request: when it was sent last, and when it is to be sent again. Monotonic seconds."""

    at: float
    again_at: float

    def again(self, now: float) -> Asked:
        """The same request, sent once more."""
        return _asked(now, 2 * (self.again_at - self.at))


def first(now: float) -> Asked:
    """A request that is sent for the first time."""
    return _asked(now, FIRST_S)


def _asked(now: float, pause_s: float) -> Asked:
    return Asked(now, now + min(pause_s, LONGEST_S))
