"""How many pods of one workload may be evicted for their nodes' sake within an hour, in the whole cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from berth.contracts.slo import NodePod

PERIOD_S: Final = 3_600.0
"""For so long an eviction counts, and stays in SLO as the record of why."""
GRANTED: Final = "granted"
REFUSED: Final = "refused"

Granted: TypeAlias = Mapping[str, Mapping[tuple[str, str], NodePod]]
"""Entries of who leaves or has left, by workload, then by node and uid."""
NONE: Final[Mapping[tuple[str, str], NodePod]] = {}


def is_granted(entry: NodePod | None) -> bool:
    """Whether the pod of an entry leaves, or has left, for its node's sake."""
    return entry is not None and entry.eviction is not None and entry.eviction.state == GRANTED


def evicted_lately(entries: Iterable[NodePod], now_s: float) -> int:
    """How many of these, which were granted, leave now, or have left within the last period."""
    return sum(each.eviction is not None and now_s - each.eviction.at < PERIOD_S for each in entries)
