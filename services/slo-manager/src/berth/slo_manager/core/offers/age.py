"""Whether a report still says something of now."""

from __future__ import annotations


def is_stale(arrived_s: float | None, now_s: float, degrade_minutes: int) -> bool:
    """Whether nothing may be lent on a report any more; None: there is none.

    Args:
        arrived_s: when the report arrived, by the clock of the bus: that of a node may be wrong.
        now_s: the time now.
        degrade_minutes: how long a report counts; exactly so old it still does.
    """
    return arrived_s is None or now_s > arrived_s + 60 * degrade_minutes
