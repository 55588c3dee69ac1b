"""How many pods of one workload may be evicted for their nodes' sake within an hour, in the whole cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.slo import NodePod

PERIOD_S: Final = 3_600.0
"""For so long an eviction counts, and stays in SLO as the record of why."""
GRANTED: Final = "granted"
REFUSED: Final = "refused"


def is_granted(entry: NodePod | None) -> bool:
    """Whether the pod of an entry leaves, or has left, for its node's sake."""
    return entry is not None and entry.eviction is not None and entry.eviction.state == GRANTED


def evicted_lately(entries: Iterable[NodePod], workload: str, now_s: float) -> int:
    """How many of a workload leave now, or have left within the last period. `entries` are those that were granted."""
    found = 0
    for each in entries:
        if each.workload == workload and each.eviction is not None and is_granted(each):
            found += now_s - each.eviction.at < PERIOD_S
    return found
