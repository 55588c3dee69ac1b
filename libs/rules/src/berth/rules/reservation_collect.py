"""When a finished Reservation may be deleted."""

from __future__ import annotations

from typing import Final

FAILED: Final = "Failed"
SUCCEEDED: Final = "Succeeded"
EXPIRED: Final = "Expired"


def is_collectable(
    *, phase: str, reason: str, finished_at: float, node_exists: bool, now: float, after_s: float
) -> bool:
    """It has expired or succeeded, and that was long ago or its node is gone. One that failed otherwise stays.

    `reason` is that of its Ready condition, `finished_at` the time of it (the last transition where it has expired, the
    last probe where it has succeeded), in unix seconds as `now`; 0: nobody knows, so it stays while its node is there.
    """
    if phase != SUCCEEDED and (phase, reason) != (FAILED, EXPIRED):
        return False
    return not node_exists or (finished_at > 0 and now - finished_at > after_s)
