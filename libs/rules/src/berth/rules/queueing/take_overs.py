"""What a Reservation that takes over pods listens to, beside what everybody does: who runs where, and what they say."""

from __future__ import annotations

from typing import Final

from berth.rules.queueing.events import NODE, POD, Action
from berth.rules.queueing.hint import Hints, Reader, always

HINTS: Final[dict[str, Hints]] = {
    "preallocation": {
        **{(POD, action): always for action in (Action.ADD, Action.DELETE, Action.POD_LABEL)},
        **{
            (NODE, action): always
            for action in (Action.ADD, Action.NODE_LABEL, Action.NODE_TAINT, Action.NODE_ALLOCATABLE)
        },
    }
}
"""By the code of its reason."""
READS: Final[dict[str, Reader]] = {"preallocation": lambda pod: None}
