"""Hints of the constraint that looks at what nodes really use."""

from __future__ import annotations

from typing import Final

from berth.rules.queueing.events import NODE, NODE_METRIC, POD, Action
from berth.rules.queueing.hint import Hints, Reader, always
from berth.rules.queueing.node_hints import left_capacity

HINTS: Final[dict[str, Hints]] = {
    "LoadAwareScheduling": {
        (NODE_METRIC, Action.UPDATE): always,
        (POD, Action.DELETE): left_capacity,
        (NODE, Action.ADD): always,
    }
}
"""By the name of the constraint. A pod that is gone may have counted with what it was estimated at."""
READS: Final[dict[str, Reader]] = {"LoadAwareScheduling": lambda pod: None}
