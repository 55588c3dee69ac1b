"""What YARN is to have of what a node lends: what it uses, and its part of what neither side uses."""

from __future__ import annotations

from typing import Final

from berth.yarn_operator.core.units import Share

STEADY_PERCENT: Final = 5
"""A part that was to be YARN's stays so while it is this close to what it would be now."""


def wanted(most: Share, used: Share, before: Share, *, percent: int) -> Share:
    """What YARN is to have.

    Args:
        most: what the node lends, less what Kubernetes' pods have asked for of it.
        used: what YARN uses.
        before: what it was to have until now. It stays so while it is nearly right, so that not each container that
            begins or ends is a reason to divide anew.
        percent: YARN's part of what neither side uses.
    """
    return Share(
        _part(most.vcores, used.vcores, before.vcores, percent),
        _part(most.memory_mb, used.memory_mb, before.memory_mb, percent),
    )


def _part(most: int, used: int, before: int, percent: int) -> int:
    free = most - used
    if free <= 0:
        return max(most, 0)
    new = used + free * percent // 100
    is_close = abs(new - before) * 100 <= STEADY_PERCENT * most
    return before if is_close and used <= before <= most and (before > used or new == used) else new
