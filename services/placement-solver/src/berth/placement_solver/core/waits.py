"""What a pod waits for that is on its way, and for how long at most."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.base import Reason

WORKED_OUT_S: Final = 10.0
"""For what STATE shows and its manager has yet to publish: it takes a moment for that, but may be away."""


class Wait(NamedTuple):
    """Until this monotonic time, in seconds, for this reason."""

    until: float
    reason: Reason
