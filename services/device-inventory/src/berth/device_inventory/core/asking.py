"""What an object was last asked to be, and when it is asked again: a request that does not show is repeated, later and
later."""

from __future__ import annotations

from typing import Final, NamedTuple

PAUSE_MAX_S: Final = 1_800.0


class Asked(NamedTuple):
    """A request: what it was about, and when it is to be sent again if nothing shows of it. Monotonic seconds."""

    about: object
    again_at_s: float
    pause_s: float


def asked(before: Asked | None, about: object, *, now_s: float, pause_s: float) -> Asked | None:
    """The request to send now; None while an equal one may still show. `pause_s` is the patience with the first."""
    if before is None or before.about != about:
        return Asked(about, now_s + pause_s, pause_s)
    if now_s < before.again_at_s:
        return None
    longer_s = min(2 * before.pause_s, max(pause_s, PAUSE_MAX_S))
    return Asked(about, now_s + longer_s, longer_s)
